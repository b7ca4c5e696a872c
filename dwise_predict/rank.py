"""How well predictions order requests, and on which scale they are: pure functions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating] | NDArray[np.integer]


class WithinCategory(NamedTuple):
    """Rank correlation inside categories."""

    mean: float | None
    """Mean over the categories in which it is defined; None when there is none."""
    by_category: dict[str, float | None]
    """None where fewer than two requests or equal values leave it undefined."""

    @property
    def undefined(self) -> int:
        """Categories that the mean leaves out."""
        return sum(value is None for value in self.by_category.values())


def ranks(values: Floats) -> NDArray[np.float64]:
    """Ranks from 1, ``[n]``; equal values share the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    shared: NDArray[np.float64] = last - (counts - 1) / 2
    return shared[inverse]


def spearman(predicted: Floats, actual: Floats) -> float | None:
    """Spearman rank correlation of two columns ``[n]``, ties averaged.

    Returns:
        A number in [-1, 1], or None when it is undefined: fewer than two requests, or all values
        of a column equal.
    """
    if len(predicted) < 2 or np.ptp(predicted) == 0 or np.ptp(actual) == 0:
        return None
    return float(np.corrcoef(ranks(predicted), ranks(actual))[0, 1])


def spearman_within(
    predicted: Floats, actual: Floats, category: NDArray[np.str_]
) -> WithinCategory:
    """Spearman correlation inside each category and its unweighted mean over categories."""
    by_category = {
        str(name): spearman(predicted[category == name], actual[category == name])
        for name in np.unique(category)
    }
    defined = [value for value in by_category.values() if value is not None]
    return WithinCategory(float(np.mean(defined)) if defined else None, by_category)


def median_ratio(predicted: Floats, actual: Floats) -> float:
    """Median of predicted / actual (paper Table 5); 1 is a typical request predicted exactly."""
    return float(np.median(predicted / actual))


def mean_absolute_error(predicted: Floats, actual: Floats) -> float:
    """Mean of ``|predicted - actual|``, in rounds."""
    return float(np.mean(np.abs(predicted - actual)))
