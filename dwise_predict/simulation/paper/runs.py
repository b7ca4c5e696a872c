"""The runs behind the paper's tables, by the names of ``published.csv``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from dwise_predict.scheduling import (
    FormerName,
    Policy,
    ResidencyLimits,
    RoundCost,
    build_scheduler,
)
from dwise_predict.scheduling.policies import S3, Dwise, Fcfs, Ltr, Mlfq, Ssjf, Trail
from dwise_predict.simulation.arrivals import Pattern, arrival_times
from dwise_predict.simulation.paper import lengths
from dwise_predict.simulation.paper.emulation import (
    RAW_RATIO,
    REFINED_RATIO,
    admission_estimates,
    refined_estimates,
    repeated_estimates,
)
from dwise_predict.simulation.paper.measures import measure, measure_predictions
from dwise_predict.simulation.paper.reference import reference_workload
from dwise_predict.simulation.paper.setups import SETUPS
from dwise_predict.simulation.predictions import Predictions
from dwise_predict.simulation.replay import Replay, replay
from dwise_predict.simulation.workload import FloatArray, SimulatedWorkload

TRAIL_NOISE = 0.3
REPEAT_NOISE = 0.3
"""Relative error of re-estimates. The latter is fitted to Table 6's 1.14 preemptions a request
when every round re-estimates; the former is assumed alike."""

S3_EDGES = (64.0, 200.0)
"""Upper ends of S3's buckets in tokens."""


@dataclass(frozen=True, slots=True)
class Run:
    """One replay: a model, arrivals, and a run by name; ``rate`` overrides the model's."""

    model: str
    arrival: Pattern
    name: str
    rate: float | None = None
    seed: int = 0


@lru_cache(maxsize=8)
def workload_of(model: str, seed: int) -> SimulatedWorkload:
    """The reference workload of ``model``: always the same requests, in an order that follows
    from ``seed`` (Table 10 changes the order and the arrivals only)."""
    workload = reference_workload(SETUPS[model].shape)
    if seed == 0:
        return workload
    order = np.random.default_rng([seed, 6]).permutation(len(workload))
    return replace(workload.take(order), request_ids=workload.request_ids)


@dataclass(frozen=True, slots=True)
class Case:
    """What a run needs besides workload and arrivals."""

    policy: Policy
    former: FormerName
    predictions: Predictions
    limits: ResidencyLimits
    cost: RoundCost
    held_rows: bool = False

    def serve(self, workload: SimulatedWorkload, arrivals: FloatArray) -> Replay:
        """Replay ``workload``."""
        scheduler = build_scheduler(self.policy, self.former, self.limits, held_rows=self.held_rows)
        return replay(workload, arrivals, self.predictions, scheduler, self.cost)


def arrivals_of(run: Run) -> FloatArray:
    """Arrival times of a run's requests."""
    rate = SETUPS[run.model].rate if run.rate is None else run.rate
    return arrival_times(run.arrival, len(workload_of(run.model, run.seed)), rate, run.seed)


def measured(run: Run) -> dict[str, float]:
    """Figures of a run."""
    setup, workload = SETUPS[run.model], workload_of(run.model, run.seed)
    case = case_of(run)
    outcome = case.serve(workload, arrivals_of(run))
    figures = measure(workload, outcome, setup.slots)
    return figures | measure_predictions(workload, case.predictions)


def case_of(run: Run) -> Case:
    """The run's policy, former, predictions, limits and cost."""
    setup, workload = SETUPS[run.model], workload_of(run.model, run.seed)
    if run.name in _DWISE:
        predictions = _DWISE[run.name](workload, run.seed)
        return Case(Dwise(), setup.former, predictions, setup.limits(), setup.cost)
    if run.name.startswith("DWISE k="):
        predictions = _refined(workload, run.seed)
        limits = setup.limits(multiplier=int(run.name.removeprefix("DWISE k=")))
        return Case(Dwise(), setup.former, predictions, limits, setup.cost)
    name, _, former = run.name.partition(" ")
    policy, predictions = _baseline(name, run.model, workload, run.seed)
    cost = setup.cost
    if name == "TRAIL":
        cost = replace(cost, base_ms=cost.base_ms + setup.trail_ms)
    if former == "mixed":
        return Case(policy, "mixed_phase", predictions, setup.limits(), cost)
    # SGLang allocates KV as it goes: no reservations.
    limits = replace(setup.limits(), kv_tokens=None)
    return Case(policy, "prefill_first", predictions, limits, cost, setup.held_rows)


def _none(workload: SimulatedWorkload, seed: int) -> Predictions:
    return Predictions(np.zeros(len(workload)))


def _admission(workload: SimulatedWorkload, seed: int) -> Predictions:
    return Predictions(admission_estimates(workload, seed))


def _refined(workload: SimulatedWorkload, seed: int, ratio: float = 1.0) -> Predictions:
    refined = ratio * refined_estimates(workload, seed)
    return Predictions(admission_estimates(workload, seed), refined)


def _oracle(workload: SimulatedWorkload, seed: int) -> Predictions:
    return Predictions(workload.rounds.astype(np.float64))


def _repeated(every: str) -> Callable[[SimulatedWorkload, int], Predictions]:
    def predictions(workload: SimulatedWorkload, seed: int) -> Predictions:
        refined = refined_estimates(workload, seed)
        reestimate = repeated_estimates(workload, refined, every, REPEAT_NOISE, seed)
        return Predictions(admission_estimates(workload, seed), reestimate=reestimate)

    return predictions


_DWISE: dict[str, Callable[[SimulatedWorkload, int], Predictions]] = {
    "DWISE": _refined,
    "DWISE prefill only": _none,
    "DWISE admission only": _admission,
    "DWISE raw": lambda workload, seed: _refined(workload, seed, RAW_RATIO / REFINED_RATIO),
    "DWISE per block": _repeated("block"),
    "DWISE per 4 rounds": _repeated("4 rounds"),
    "DWISE per round": _repeated("round"),
    "Oracle": _oracle,
}


def _baseline(name: str, model: str, workload: SimulatedWorkload, seed: int) -> _Baseline:
    """A baseline's policy and what it is told."""
    if name == "TRAIL":
        scores = lengths.SDAR_TRAIL if model == "SDAR-8B" else lengths.TRAIL
        first = lengths.length_scores(workload, scores, seed)
        reestimate = lengths.remaining_tokens(workload, TRAIL_NOISE, seed)
        return Trail(), Predictions(first, reestimate=reestimate)
    if name in _SCORES:
        scores = lengths.SDAR_S3 if (name, model) == ("S3", "SDAR-8B") else _SCORES[name]
        predictions = Predictions(lengths.length_scores(workload, scores, seed))
        return _SCORE_POLICIES[name], predictions
    return (Mlfq() if name == "MLFQ" else Fcfs()), _none(workload, seed)


_Baseline = tuple[Policy, Predictions]
_SCORES = {"SSJF": lengths.SSJF, "LTR": lengths.LTR, "S3": lengths.S3}
_SCORE_POLICIES: dict[str, Policy] = {"SSJF": Ssjf(), "LTR": Ltr(), "S3": S3(edges=S3_EDGES)}
