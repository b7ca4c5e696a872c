"""How uncertain figures are: resampling requests by their prompts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

DRAWS = 1000
NORMAL_95 = 1.959964
"""Half the width of a 95% interval, in standard errors."""


def bootstrap(
    statistic: Callable[[NDArray[np.int64]], NDArray[np.float64]],
    groups: NDArray[np.str_],
    draws: int = DRAWS,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Values of ``statistic`` on resamples, ``[draws, m]``; the same seed gives the same ones.

    Whole groups are drawn, with replacement, because requests of the same prompt take much the same
    rounds: each counts less than a request of its own. Resamples of a single group all are the
    same and say nothing: NaN then.

    Args:
        statistic: m figures of the given rows, NaN where undefined.
        groups: of each row, ``[n >= 1]``.
        draws: number of resamples.
        seed: of the draws.
    """
    names, member = np.unique(groups, return_inverse=True)
    order = np.argsort(member, kind="stable")
    members = np.split(order, np.cumsum(np.bincount(member))[:-1])
    if len(names) == 1:
        return np.full((draws, len(statistic(order))), np.nan)
    rng = np.random.default_rng(seed)
    return np.stack(
        [
            statistic(
                np.concatenate([members[i] for i in rng.integers(len(names), size=len(names))])
            )
            for _ in range(draws)
        ]
    )


def standard_errors(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standard deviation of each figure over resamples ``[draws, m]``, NaN left out, ``[m]``.

    NaN where a figure is defined in fewer than half of them.
    """
    known = np.isfinite(values)
    enough = known.sum(0) * 2 >= len(values)
    filled = np.where(known, values, 0.0)
    count = np.maximum(known.sum(0), 1)
    mean = filled.sum(0) / count
    squares = np.where(known, (values - mean) ** 2, 0.0).sum(0) / np.maximum(count - 1, 1)
    return np.where(enough, np.sqrt(squares), np.nan)
