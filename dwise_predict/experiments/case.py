"""One served run: a scheduler by the paper's name, arrivals, and what is varied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Final, Literal

from dwise_predict.experiments.settings import MULTIPLIER
from dwise_predict.simulation.arrivals import Pattern
from dwise_predict.simulation.run import Setup

BURST: Final = "burst"
POISSON: Final = "burst+poisson"
ARRIVALS: tuple[Pattern, ...] = (BURST, POISSON)
"""The paper's two patterns (Section 6.1)."""

Estimates = Literal[
    "nothing",
    "prefill",
    "admission",
    "raw",
    "refined",
    "every block",
    "every 4 rounds",
    "every round",
    "held out",
    "extended",
    "truth",
    "ssjf",
    "s3",
    "ltr",
    "trail",
]
"""What a policy is told. ``prefill`` is an estimate of 0 rounds, ``held out`` comes from predictors
trained without multiple choice, ``extended`` from an admission predictor that also sees the tokens
of the prompt; the last four are the learned baselines."""


@dataclass(frozen=True, slots=True)
class Scheduling:
    """A policy on a batch former, and its estimates."""

    setup: Setup
    estimates: Estimates


def _baseline(policy: str, estimates: Estimates, mixed: bool) -> Scheduling:
    return Scheduling(Setup(policy, "mixed_phase" if mixed else "prefill_first"), estimates)


_LEARNED: Mapping[str, Estimates] = {"SSJF": "ssjf", "S3": "s3", "LTR": "ltr", "TRAIL": "trail"}
_DWISE: Mapping[str, Estimates] = {
    "DWISE": "refined",
    "DWISE prefill only": "prefill",
    "DWISE admission only": "admission",
    "DWISE raw": "raw",
    "DWISE per block": "every block",
    "DWISE per 4 rounds": "every 4 rounds",
    "DWISE per round": "every round",
    "DWISE without choice": "held out",
    "DWISE extended": "extended",
    "Oracle": "truth",
}

LEARNED = tuple(_LEARNED)
"""Baselines that are trained."""

RUNS: Mapping[str, Scheduling] = MappingProxyType(
    {
        "SGLang": _baseline("fcfs", "nothing", mixed=False),
        "MLFQ": _baseline("mlfq", "nothing", mixed=False),
        "FCFS mixed": _baseline("fcfs", "nothing", mixed=True),
        **{n: _baseline(n.lower(), kind, mixed=False) for n, kind in _LEARNED.items()},
        **{f"{n} mixed": _baseline(n.lower(), kind, mixed=True) for n, kind in _LEARNED.items()},
        **{n: _baseline("dwise", kind, mixed=True) for n, kind in _DWISE.items()},
    }
)
"""By the names of ``simulation/paper/published.csv``."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is served, and how.

    Attributes:
        run: one of :data:`RUNS`.
        arrival: pattern.
        load: arrival rate over what FCFS served while the model was profiled (``poisson``).
        multiplier: k.
        order: 0 is the order of the workload; others shuffle requests and arrivals.
        repeat: tells apart runs of the same case.
        budget: output tokens; None: the recipe's.
        threads: of the engine; None: the recipe's.
    """

    run: str
    arrival: Pattern = BURST
    load: float | None = None
    multiplier: int = MULTIPLIER
    order: int = 0
    repeat: int = 0
    budget: int | None = None
    threads: int | None = None

    @property
    def scheduling(self) -> Scheduling:
        """Policy, former and estimates."""
        return RUNS[self.run]

    @property
    def name(self) -> str:
        """Name of the results folder: what differs from the defaults."""
        parts = [self.arrival.replace("+", "-"), self.run.lower().replace(" ", "-")]
        for field in fields(self)[2:]:
            value = getattr(self, field.name)
            if value != field.default:
                parts.append(f"{field.name}-{value:g}")
        return "_".join(parts)
