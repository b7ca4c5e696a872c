"""The stage that all experiments share: a profile and trained predictors for every seed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dwise_predict.baselines import BASELINES_FOLDER, Baselines
from dwise_predict.bundle import PredictorBundle
from dwise_predict.experiments.settings import RATE_FACTOR, Settings
from dwise_predict.pipeline import run_training
from dwise_predict.predictors.admission import AdmissionPredictor
from dwise_predict.predictors.examples import Examples
from dwise_predict.profile import Profile, read_profile
from dwise_predict.run_folder import RunFolder
from dwise_predict.scheduling import RoundCost
from dwise_predict.simulation.arrivals import Pattern, arrival_times
from dwise_predict.simulation.fitting import fit_round_cost
from dwise_predict.simulation.run import Arrivals
from dwise_predict.simulation.sources import Source, profile_source
from dwise_predict.simulation.workload import FloatArray, IntArray
from dwise_predict.training import examples_from_profile
from dwise_predict.workload.jsonl import read_jsonl
from dwise_predict.workload.schema import Request


@dataclass(frozen=True)
class Asked:
    """N evaluation requests in the order in which they are served.

    ``requests`` have their texts, ``source`` their profiled rounds, ``rows`` int64 [N] are their
    places among the evaluation requests of the profile.
    """

    requests: tuple[Request, ...]
    source: Source
    rows: IntArray

    def __len__(self) -> int:
        return len(self.requests)


@dataclass(frozen=True)
class Base:
    """One seed's run folder, read when it is asked for."""

    folder: RunFolder
    seed: int

    @cached_property
    def profile(self) -> Profile:
        """Every request that was profiled."""
        return read_profile(self.folder.profile)

    @cached_property
    def examples(self) -> Examples:
        """What predictors learn from, one row a profiled request."""
        return examples_from_profile(self.profile)

    @cached_property
    def in_training(self) -> npt.NDArray[np.bool_]:
        """Which profiled requests predictors were trained on, [N]."""
        return np.asarray(np.array(self.profile.requests["split"].to_pylist()) == "train")

    @cached_property
    def bundle(self) -> PredictorBundle:
        """The trained predictors."""
        return PredictorBundle.load(self.folder.bundle)

    @cached_property
    def baselines(self) -> Baselines:
        """The learned baselines, trained on the same profile."""
        return Baselines.load(self.folder.path / BASELINES_FOLDER)

    @cached_property
    def requests(self) -> tuple[Request, ...]:
        """Every request with its text, in the order of the profile."""
        return tuple(read_jsonl(self.folder.workload))

    @cached_property
    def cost(self) -> RoundCost:
        """Of a round, fitted to those of the profile."""
        return fit_round_cost(self.profile.rounds).cost

    @cached_property
    def fcfs_rate(self) -> float:
        """Requests a second that were served first come, first served while profiling."""
        busy_s = float(self.profile.rounds["wall_ms"].to_numpy().sum()) / 1e3
        return float(self.profile.requests.num_rows / busy_s)

    def asked(self, order: int = 0) -> Asked:
        """The evaluation requests; an ``order`` other than 0 shuffles them.

        Schedulers break ties by request id, so that shuffled requests are renamed by place.
        """
        source = profile_source(self.profile)
        rows = source.rows
        assert rows is not None
        places = np.arange(len(source))
        requests = [self.requests[row] for row in rows.tolist()]
        if order == 0:
            return Asked(tuple(requests), source, places)
        places = np.random.default_rng([self.seed, order]).permutation(len(source))
        requests = [
            requests[place].model_copy(
                update={"request_id": f"{new:06}.{requests[place].request_id}"}
            )
            for new, place in enumerate(places.tolist())
        ]
        facts = source.facts.take(places)
        column = facts.schema.get_field_index("request_id")
        names = pa.array([request.request_id for request in requests])
        facts = facts.set_column(column, facts.schema.field(column), names)
        return Asked(tuple(requests), replace(source, facts=facts, rows=rows[places]), places)

    def admission(self, asked: Asked) -> FloatArray:
        """What the bundle estimates at admission: rounds, float64 [N]."""
        return self.estimated_by(self.bundle.admission, asked)

    def estimated_by(self, admission: AdmissionPredictor, asked: Asked) -> FloatArray:
        """What another admission predictor does."""
        rows = asked.source.rows
        assert rows is not None
        examples = self.examples.take(rows)
        return admission.rounds_batch(
            examples.words, examples.newlines, examples.prompt_tokens, examples.token_bins.tolist()
        )

    def arrivals(self, pattern: Pattern, load: float | None, order: int, n: int) -> Arrivals:
        """Arrivals of n requests: at ``load`` times :attr:`fcfs_rate`, or the paper's rate."""
        rate = (RATE_FACTOR if load is None else load) * self.fcfs_rate
        seconds: FloatArray = arrival_times(pattern, n, rate, self.seed + 1000 * order)
        return Arrivals(pattern, seconds)


def base_of(settings: Settings, seed: int, budget: int | None = None) -> Base:
    """What :func:`make_base` has made."""
    return _read(settings.base(seed, budget).path, seed)


@lru_cache(maxsize=4)
def _read(path: Path, seed: int) -> Base:
    return Base(RunFolder(path), seed)


def make_base(settings: Settings, seed: int, budget: int | None = None) -> None:
    """Profile the model and train its predictors, or go on where that was interrupted."""
    recipe = settings.recipe_of(seed, budget)
    run_training(recipe, settings.base(seed, budget).path, resume=True)
