"""When requests arrive."""

from __future__ import annotations

from typing import Literal

import numpy as np

from dwise_predict.simulation.workload import FloatArray

Pattern = Literal["burst", "burst+poisson", "poisson"]


def arrival_times(pattern: Pattern, n: int, rate: float | None, seed: int) -> FloatArray:
    """Arrival times of n requests in seconds, float64 [n], not decreasing.

    ``burst``: all at 0. ``poisson``: a Poisson process of ``rate`` requests a second from 0 on.
    ``burst+poisson``: the first half at 0, the others Poisson (paper Section 6.1). Raises
    ValueError when a rate is needed and missing or not positive.
    """
    if pattern == "burst":
        return np.zeros(n)
    if rate is None or rate <= 0:
        raise ValueError(f"pattern {pattern!r} needs a positive rate, not {rate}")
    at_start = n // 2 if pattern == "burst+poisson" else 0
    gaps = np.random.default_rng(seed).exponential(1 / rate, n - at_start)
    return np.concatenate([np.zeros(at_start), np.cumsum(gaps)])
