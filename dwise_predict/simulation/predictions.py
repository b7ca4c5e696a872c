"""What the scheduler is told about requests during a replay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dwise_predict.simulation.workload import FloatArray

Reestimate = Callable[[int, int, bool], float | None]
"""Remaining work of request i after its k-th denoising round, which ended a block or not; None:
no new estimate."""


@dataclass(frozen=True, slots=True)
class Predictions:
    """Estimates of N requests, in the unit of the policy.

    ``admission`` float64 [N] is given at arrival. ``refined`` float64 [N] is the estimate of the
    remaining rounds after the first denoising round, with ``curves`` (one sequence each, see
    ``Estimated.residual``). ``reestimate`` instead is asked after every denoising round.
    """

    admission: FloatArray
    refined: FloatArray | None = None
    curves: Sequence[Sequence[float]] | None = None
    reestimate: Reestimate | None = None
