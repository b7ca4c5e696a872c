"""Trained baselines as what schedulers are told, in the simulator and in the built-in engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dwise_predict.baselines.lengths import FloatArray, prompts_of
from dwise_predict.baselines.rounds import RecordedRounds
from dwise_predict.baselines.s3 import S3
from dwise_predict.baselines.settings import METHODS, Method
from dwise_predict.baselines.store import Baseline, read_baseline, read_config
from dwise_predict.baselines.trail import Trail
from dwise_predict.errors import BaselineError, SimulationError
from dwise_predict.fingerprint import Fingerprint, fingerprint_differences
from dwise_predict.serving import Told
from dwise_predict.simulation.estimates import TARGETS, Target, no_predictions
from dwise_predict.simulation.predictions import Predictions
from dwise_predict.simulation.sources.source import Source
from dwise_predict.simulation.workload import SimulatedWorkload
from dwise_predict.workload.schema import Request


@dataclass(frozen=True)
class Baselines:
    """Trained baselines of one profile, by method.

    The name of a method is that of its policy, ``policy_options`` are what
    :class:`~dwise_predict.simulation.run.Setup` then takes.
    """

    trained: Mapping[Method, Baseline]
    fingerprint: Fingerprint

    @classmethod
    def load(cls, folder: Path, methods: Sequence[Method] = METHODS) -> Baselines:
        """Those ``methods`` that ``folder`` holds.

        Raises BaselineError when it holds none, they are damaged, or an encoder is not to be had.
        """
        found = [method for method in methods if (folder / method).is_dir()]
        if not found:
            raise BaselineError(f"{folder} holds no trained baseline: train some first")
        fingerprint = read_config(folder / found[0]).origin.fingerprint
        return cls({method: read_baseline(folder / method) for method in found}, fingerprint)

    def __getitem__(self, method: Method) -> Baseline:
        if method not in self.trained:
            raise BaselineError(f"the baseline {method} was not trained")
        return self.trained[method]

    def admission(self, method: Method, texts: Sequence[str]) -> FloatArray:
        """What ``method`` says of n prompts at arrival, float64 [n], smaller first.

        Output tokens for ``ssjf`` and ``trail``, allocated output tokens for ``s3``, a score
        without a unit for ``ltr``.
        """
        return self[method].admission(texts)

    def policy_options(self, method: Method) -> dict[str, object]:
        """Options of the policy ``method`` that belong to the trained predictor."""
        return self[method].policy_options()

    def require(self, fingerprint: Fingerprint) -> None:
        """Raise BaselineError when the baselines were trained for another model or decoding."""
        if differences := fingerprint_differences(self.fingerprint, fingerprint):
            raise BaselineError(
                f"the baselines were trained for something else ({'; '.join(differences)}): "
                "train them on this profile"
            )

    def simulated(
        self,
        method: Method,
        source: Source,
        requests: Sequence[Request],
        rounds: RecordedRounds | None = None,
    ) -> LearnedLengths:
        """A predictor for :func:`~dwise_predict.simulation.run.simulate`.

        Args:
            method: which; the setup's policy must be the one of that name.
            source: profiled requests.
            requests: their workload, for the prompts.
            rounds: recorded rounds of these requests, which TRAIL needs.

        Raises:
            BaselineError: not trained, or for another model, or prompts or rounds are missing.
        """
        if source.profile is None or source.rows is None:
            raise BaselineError("baselines predict from prompts, which synthetic requests lack")
        self.require(source.profile.run.fingerprint)
        if method == "trail" and rounds is None:
            raise BaselineError("TRAIL needs recorded rounds (record_rounds)")
        texts = prompts_of(source.profile, requests)
        admission = self.admission(method, [texts[row] for row in source.rows])
        if rounds is not None:
            # Several requests of a trace may be drawn from one that was profiled.
            ids = source.profile.requests["request_id"].take(source.rows)
            rounds = rounds.of(ids.to_pylist())
        return LearnedLengths(method, self[method], admission, rounds)

    def told(self, method: Method, requests: Sequence[Request]) -> Told:
        """What :func:`~dwise_predict.serving.serve_workload` takes, for one call of it."""
        baseline = self[method]
        admission = baseline.admission([request.text for request in requests])
        if isinstance(baseline, S3):
            by_id = zip((r.request_id for r in requests), admission.tolist(), strict=True)
            return Told(admission, watch=baseline.watch(dict(by_id)))
        if isinstance(baseline, Trail):
            return Told(admission, watch=baseline.watch())
        return Told(admission)


@dataclass(frozen=True)
class LearnedLengths:
    """Estimates of one baseline for the requests of a simulation.

    ``admission`` float64 [N] is in the unit of the policy; ``rounds`` are the recorded rounds of
    the same N requests in the same order, where the method reads them.
    """

    name: str
    baseline: Baseline
    admission: FloatArray
    rounds: RecordedRounds | None = None

    def predict(self, workload: SimulatedWorkload, target: Target) -> Predictions:
        """The estimates. Raises SimulationError when the policy wants something else."""
        if target == "nothing":
            return no_predictions(len(workload))
        if target != TARGETS[self.name] or len(workload) != len(self.admission):
            raise SimulationError(
                f"the baseline {self.name} serves the policy of that name, and the requests that "
                "it was asked about"
            )
        admission, baseline = np.asarray(self.admission), self.baseline
        if isinstance(baseline, S3):
            return Predictions(admission, reestimate=baseline.simulated(workload, admission))
        if isinstance(baseline, Trail):
            assert self.rounds is not None
            return Predictions(admission, reestimate=baseline.simulated(self.rounds))
        return Predictions(admission)
