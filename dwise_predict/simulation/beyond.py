"""What goes beyond the paper: each lever and their combinations, against preset and oracle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from dwise_predict.scheduling import LeanFill, ResidencyLimits, RoundCost, build_scheduler
from dwise_predict.scheduling.policies import Dwise
from dwise_predict.simulation.predictions import Predictions
from dwise_predict.simulation.replay import replay
from dwise_predict.simulation.workload import FloatArray, SimulatedWorkload


@dataclass(frozen=True, slots=True)
class Levers:
    """Which options beyond the paper a run uses; none of them: the paper's preset.

    ``predictor`` names the estimates: ``"paper"``, ``"oracle"`` or another that the
    :class:`Situation` has. The others are those of :class:`Dwise`, :class:`LeanFill` and
    ``SimulatedWorkload.prefill_chunk``; ``curve`` is ``"mean"`` or ``"gittins"``.
    """

    predictor: str = "paper"
    time: bool = False
    curve: str | None = None
    probe: bool = False
    hysteresis: float = 0.0
    aging: float | None = None
    lean: float | None = None
    chunk: int = 1


PAPER, ORACLE = "paper preset", "oracle"
BETTER_ADMISSION = "better admission"
"""Name of the estimates that know more at admission."""

LEVERS: Mapping[str, Levers] = MappingProxyType(
    {
        PAPER: Levers(),
        ORACLE: Levers(predictor="oracle"),
        "estimate: mean residual": Levers(curve="mean"),
        "rank: Gittins": Levers(curve="gittins"),
        "unit: time": Levers(time=True),
        "hysteresis 0.1": Levers(hysteresis=0.1),
        "aging 10": Levers(aging=10.0),
        "aging 50": Levers(aging=50.0),
        "probe": Levers(probe=True),
        "lean 8": Levers(lean=8.0),
        "lean 4": Levers(lean=4.0),
        "prefill chunk 2": Levers(chunk=2),
        "prefill chunk 4": Levers(chunk=4),
        "time + probe": Levers(time=True, probe=True),
        "time + probe + residual": Levers(time=True, probe=True, curve="mean"),
        "time + probe + residual + lean 8": Levers(time=True, probe=True, curve="mean", lean=8.0),
        "time + probe + residual + lean 4": Levers(time=True, probe=True, curve="mean", lean=4.0),
        "admission features": Levers(predictor=BETTER_ADMISSION),
        "admission features + time + probe": Levers(
            predictor=BETTER_ADMISSION, time=True, probe=True
        ),
        "admission features + time + probe + lean 8": Levers(
            predictor=BETTER_ADMISSION, time=True, probe=True, lean=8.0
        ),
        "time + chunk 4": Levers(time=True, chunk=4),
        "time + probe + lean 8 + chunk 2": Levers(time=True, probe=True, lean=8.0, chunk=2),
        "time + probe + lean 8 + chunk 4": Levers(time=True, probe=True, lean=8.0, chunk=4),
        "time + probe + lean 8 + chunk 8": Levers(time=True, probe=True, lean=8.0, chunk=8),
        "oracle, time": Levers(predictor="oracle", time=True),
        "oracle, time + lean 8": Levers(predictor="oracle", time=True, lean=8.0),
        "oracle, time + lean 2": Levers(predictor="oracle", time=True, lean=2.0),
    }
)
"""What is tried. Combinations hold what helped alone."""


@dataclass(frozen=True)
class Situation:
    """A workload with arrivals, an engine's limits and cost, and estimates by name.

    ``predictors`` are ``"paper"`` and :data:`BETTER_ADMISSION`, with the same refined estimates;
    the curves of these, mean residuals and Gittins indices, are in ``curves`` by ``"mean"`` and
    ``"gittins"``. ``ratios`` are quantiles of true over estimated rounds at admission, by predictor
    and from requests other than those served.
    """

    workload: SimulatedWorkload
    arrivals: FloatArray
    limits: ResidencyLimits
    cost: RoundCost
    predictors: Mapping[str, Predictions]
    curves: Mapping[str, Sequence[Sequence[float]]]
    ratios: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Seconds; ``worst_p99_s`` is the largest p99 of any category."""

    mean_s: float
    p99_s: float
    worst_p99_s: float


def serve(situation: Situation, levers: Levers) -> Outcome:
    """Replay ``situation`` with ``levers``."""
    size = situation.limits.block_size
    workload = replace(situation.workload, prefill_chunk=levers.chunk)
    policy = Dwise(
        estimate="residual" if levers.curve else "clamp",
        unit="time" if levers.time else "rounds",
        cost=situation.cost if levers.time else None,
        block_size=size,
        prefill_chunk=levers.chunk,
        probe=situation.ratios[levers.predictor] if levers.probe else (),
        aging=levers.aging,
    )
    if levers.predictor == "oracle":
        predictions = Predictions(workload.rounds.astype(np.float64))
    else:
        predictions = situation.predictors[levers.predictor]
        if levers.curve:
            predictions = replace(predictions, curves=situation.curves[levers.curve])
    lean = None
    if levers.lean is not None:
        lean = LeanFill(situation.cost, size, levers.lean, levers.chunk)
    scheduler = build_scheduler(
        policy, "mixed_phase", situation.limits, hysteresis=levers.hysteresis, lean=lean
    )
    outcome = replay(workload, situation.arrivals, predictions, scheduler, situation.cost)
    latency = outcome.finished_s - outcome.arrival_s
    categories = np.array(workload.categories)
    return Outcome(
        mean_s=float(latency.mean()),
        p99_s=float(np.quantile(latency, 0.99)),
        worst_p99_s=max(
            float(np.quantile(latency[categories == name], 0.99)) for name in set(categories)
        ),
    )


@dataclass(frozen=True, slots=True)
class Gain:
    """One lever over several situations: means, and what it closes of the distance to the oracle.

    ``closed`` is (preset - lever) / (preset - oracle) in mean latency, the mean over situations,
    with a 95% bootstrap interval ``closed_low`` to ``closed_high``. ``p99_ratio`` and
    ``worst_p99_ratio`` are means of the ratio to the preset.
    """

    name: str
    mean_s: float
    closed: float
    closed_low: float
    closed_high: float
    p99_ratio: float
    worst_p99_ratio: float


def gains(outcomes: Mapping[str, Sequence[Outcome]], seed: int = 0) -> list[Gain]:
    """Summarise ``outcomes`` by lever, one outcome a situation, in the same order for each."""
    preset, oracle = (np.array([o.mean_s for o in outcomes[name]]) for name in (PAPER, ORACLE))
    found = []
    for name, served in outcomes.items():
        mean_s = np.array([outcome.mean_s for outcome in served])
        closed = (preset - mean_s) / (preset - oracle)
        draws = np.random.default_rng(seed).integers(0, len(closed), (2000, len(closed)))
        low, high = np.quantile(closed[draws].mean(axis=1), [0.025, 0.975])
        found.append(
            Gain(
                name=name,
                mean_s=float(mean_s.mean()),
                closed=float(closed.mean()),
                closed_low=float(low),
                closed_high=float(high),
                p99_ratio=_mean_ratio([o.p99_s for o in served], outcomes[PAPER], "p99_s"),
                worst_p99_ratio=_mean_ratio(
                    [o.worst_p99_s for o in served], outcomes[PAPER], "worst_p99_s"
                ),
            )
        )
    return found


def _mean_ratio(values: Sequence[float], base: Sequence[Outcome], field: str) -> float:
    return float(np.mean([v / getattr(o, field) for v, o in zip(values, base, strict=True)]))
