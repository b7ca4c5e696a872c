"""The round cost model, fitted to recorded rounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pyarrow as pa

from dwise_predict.errors import SimulationError
from dwise_predict.scheduling import RoundCost
from dwise_predict.simulation.limits import MAX_KV_TOKENS, MAX_SLOTS
from dwise_predict.simulation.workload import FloatArray

_MAX_WALL_MS = 1e9

MIN_ROUNDS = 10
"""Fewest rounds that a cost model is fitted to."""

GOOD_R_SQUARED = 0.9
"""Below this a fit does not say what rounds take; 0.99 and more is usual on an idle machine."""


@dataclass(frozen=True)
class CostFit:
    """A fitted model and how well it says what rounds took.

    ``r_squared`` is the share of the variance of ``wall_ms`` that it explains; the errors are
    quantiles of ``|fitted - measured| / measured``.
    """

    cost: RoundCost
    r_squared: float
    median_error: float
    p90_error: float
    rounds: int

    @property
    def good(self) -> bool:
        """Whether the fit says what rounds take: ``r_squared`` of ``GOOD_R_SQUARED`` or more."""
        return self.r_squared >= GOOD_R_SQUARED


def fit_round_cost(rounds: pa.Table) -> CostFit:
    """Fit ``wall_ms = base + slot * slots + kv * kv_tokens``, no coefficient negative.

    A term for the residents is left at 0: first come, first served, they are as many as the slots
    in nearly every round, which tells nothing of what more of them would cost. Least squares over
    rounds: long ones weigh more than short ones, and with a positive base their total time is met.

    Args:
        rounds: columns ``wall_ms``, ``slots`` and ``kv_tokens``, one row a round.

    Raises:
        SimulationError: there are too few rounds, all of them took the same time, or an entry
            cannot be.
    """
    wall, slots, kv = (
        np.asarray(rounds[name].to_numpy(), dtype=np.float64)
        for name in ("wall_ms", "slots", "kv_tokens")
    )
    if len(wall) < MIN_ROUNDS:
        raise SimulationError(
            f"a cost model needs at least {MIN_ROUNDS} rounds, the profile has {len(wall)}; give "
            "the model with --cost BASE,SLOT,KV"
        )
    if not (
        (np.abs(wall) <= _MAX_WALL_MS).all()
        and ((slots >= 0) & (slots <= MAX_SLOTS)).all()
        and ((kv >= 0) & (kv <= MAX_KV_TOKENS)).all()
    ):
        raise SimulationError(
            "the profile's rounds hold times, slots or KV tokens that cannot be, so the profile is "
            "damaged: profile again, or give the model with --cost BASE,SLOT,KV"
        )
    if np.ptp(wall) == 0 or wall.min() <= 0:
        raise SimulationError(
            "the profile's rounds do not tell what a round costs: they all took the same time, or "
            "none; give the model with --cost BASE,SLOT,KV"
        )
    terms = np.column_stack([np.ones(len(wall)), slots, kv])
    fitted = terms @ (found := non_negative_least_squares(terms, wall))
    error = np.abs(fitted - wall) / wall
    return CostFit(
        cost=RoundCost(*found.tolist()),
        r_squared=float(1 - np.var(wall - fitted) / np.var(wall)),
        median_error=float(np.median(error)),
        p90_error=float(np.percentile(error, 90)),
        rounds=len(wall),
    )


def non_negative_least_squares(terms: FloatArray, target: FloatArray) -> FloatArray:
    """The x >= 0, float64 [k], that minimises ``|terms @ x - target|``; terms is [n, k].

    Exact for any k, but meant for a few terms: the solution is an ordinary least-squares solution
    on the terms that it gives weight to, so every set of terms is tried.
    """
    k = terms.shape[1]
    # Terms of one size, because those of rounds differ by four orders of magnitude.
    scale = np.sqrt((terms**2).mean(axis=0))
    scaled = terms / np.where(scale > 0, scale, 1.0)
    best, least = np.zeros(k), float(target @ target)
    for chosen in _subsets(k):
        weights, *_ = np.linalg.lstsq(scaled[:, chosen], target, rcond=None)
        if (weights < 0).any():
            continue
        residual = target - scaled[:, chosen] @ weights
        if float(residual @ residual) < least:
            least = float(residual @ residual)
            best = np.zeros(k)
            best[chosen] = weights
    solution: FloatArray = best / np.where(scale > 0, scale, 1.0)
    return solution


def _subsets(k: int) -> Iterator[list[int]]:
    for size in range(1, k + 1):
        yield from map(list, combinations(range(k), size))
