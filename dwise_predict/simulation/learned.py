"""Estimates of trained predictors for the requests of a profile."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dwise_predict.errors import SimulationError
from dwise_predict.profile import token_bins_of
from dwise_predict.run_folder import RunFolder
from dwise_predict.simulation.estimates import Target, no_predictions
from dwise_predict.simulation.predictions import Predictions
from dwise_predict.simulation.sources.source import Source, integers
from dwise_predict.simulation.workload import FloatArray, SimulatedWorkload
from dwise_predict.tables import read_table

if TYPE_CHECKING:
    from dwise_predict.bundle import PredictorBundle

_COLUMNS = ("request_id", "admission", "refined")


@dataclass(frozen=True)
class LearnedRounds:
    """Estimates that predictors made for N requests.

    ``admission`` and ``refined`` are float64 [N], rounds in total and rounds remaining after the
    first; ``curves``, if any, are mean residuals by rounds since then, one list each.
    """

    name: str
    admission: FloatArray
    refined: FloatArray
    curves: list[list[float]] | None = None

    def predict(self, workload: SimulatedWorkload, target: Target) -> Predictions:
        """The estimates. Raises SimulationError when the policy wants output tokens."""
        self.check(target)
        if target == "nothing":
            return no_predictions(len(workload))
        return Predictions(self.admission, self.refined, self.curves)

    def check(self, target: Target) -> None:
        """Raise SimulationError when this is not what is predicted."""
        if target not in ("nothing", "rounds"):
            raise SimulationError(
                f"the predictors of {self.name} predict denoising rounds, but this policy ranks by "
                "output tokens: take --predictor oracle or noisy_oracle for it, or leave it out"
            )


def bundle_estimates(bundle: PredictorBundle, source: Source, curves: bool) -> LearnedRounds:
    """Have a bundle predict the profiled requests of ``source``, all in one batch.

    Args:
        bundle: its refiner runs on the CPU.
        source: with a profile, whose hidden means the refiner reads.
        curves: also compute mean residuals, which only policies with ``estimate=residual`` read.

    Raises:
        SimulationError: the requests were not profiled.
        IncompatibleBundleError: the bundle is of another model or decoding.
    """
    if source.profile is None or source.rows is None:
        raise SimulationError(
            "a bundle predicts from prompts and hidden states, which synthetic requests lack: "
            "give --profile, or --predictor oracle or noisy_oracle"
        )
    bundle.require(source.profile.run.fingerprint)
    requests = source.profile.requests.take(source.rows)
    if bundle.admission.features == "extended" and requests["token_bins"].null_count:
        raise SimulationError(
            "the bundle's admission features are extended, but the profile does not hold the "
            "token_bins of every request: it was made by an earlier version or published without "
            "prompts. Profile again, or take a bundle with the features sizes"
        )
    prompt_tokens = integers(requests, "prompt_tokens")
    remaining = bundle.refiner(
        source.profile.hidden[source.rows], prompt_tokens, integers(requests, "budget_tokens")
    )
    residuals = None
    if curves:
        residuals = remaining.mean_residuals().tolist()
    return LearnedRounds(
        name=f"bundle {bundle.source}",
        admission=bundle.admission.rounds_batch(
            integers(requests, "words"),
            integers(requests, "newlines"),
            prompt_tokens,
            token_bins_of(requests).tolist(),
        ),
        refined=remaining.mean().numpy().astype(np.float64),
        curves=residuals,
    )


def run_estimates(run: Path, source: Source) -> LearnedRounds:
    """The estimates in the ``predictions.parquet`` of a run folder, matched by request id.

    Raises SimulationError when there is none, it is damaged or lacks a request.
    """
    path = RunFolder(run).predictions
    if source.profile is None or source.rows is None:
        raise SimulationError("synthetic requests are in no run folder: leave out --predictor run")
    try:
        table = read_table(path, _COLUMNS)
        known = table["request_id"].to_pylist()
        admission, refined = (
            np.asarray(table[name].to_numpy(), dtype=np.float64) for name in _COLUMNS[1:]
        )
    except FileNotFoundError as error:
        raise SimulationError(
            f"{path} is missing: {run} is no finished run folder (dwise train makes one)"
        ) from error
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise SimulationError(f"{path} is damaged: {error}") from error
    row_of = {request_id: row for row, request_id in enumerate(known)}
    wanted = source.profile.requests["request_id"].take(source.rows).to_pylist()
    if absent := [request_id for request_id in wanted if request_id not in row_of]:
        raise SimulationError(
            f"{path} has no estimate for {len(absent)} of {len(wanted)} requests, {absent[0]!r} "
            "among them: it belongs to another profile"
        )
    rows = np.array([row_of[request_id] for request_id in wanted])
    if not (np.isfinite(admission[rows]).all() and np.isfinite(refined[rows]).all()):
        raise SimulationError(f"{path} is damaged: an estimate is no number")
    # The column counts the first round too.
    return LearnedRounds(f"run {run}", admission[rows], np.maximum(refined[rows] - 1, 0))
