"""Monotone map from expected to typical remaining rounds (paper Section 4.2, Table 5).

The refiner's expectation is the mean of a right-skewed distribution, so on most requests it is too
long; admission estimates, regressed in log space, are close to medians. Both are ranked together,
hence one scale. The map is an isotonic regression under *absolute* loss: its blocks hold medians.
An ordinary (least-squares) isotonic map would return the conditional mean once more, whose median
ratio stays above 1 and whose absolute error can be worse than before.

Two things keep it from hurting. Neighbouring requests are pooled before the fit, so that single
extreme requests at the ends form no block of their own. And the map interpolates between block
centres, so that it is strictly increasing: ranks are exactly those of the raw output.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dwise_predict.predictors.limits import check_knots, distinct

MAX_KNOTS = 32
"""Most pools of neighbouring requests, and so most knots of a map."""
MIN_POOL = 16
"""Fewest requests in a pool."""
_MIN_SLOPE = 1e-3
"""Least slope between knots: enough to keep ranks, too little to move an estimate."""


@dataclass(frozen=True)
class CalibrationMap:
    """Piecewise linear, strictly increasing map given by its knots.

    Starts at (1, 1): an expectation of one round leaves no doubt. Beyond the last knot it goes on
    proportionally (the last knot's ratio).

    Args:
        raw: expected remaining rounds at the knots, strictly increasing, from 1.
        calibrated: typical remaining rounds there, strictly increasing, from 1.

    Raises:
        ValueError: the knots are not such sequences, or outside
            :mod:`dwise_predict.predictors.limits`.
    """

    raw: tuple[float, ...]
    calibrated: tuple[float, ...]

    def __post_init__(self) -> None:
        check_knots(self.raw, self.calibrated)

    def __call__(self, expected: Tensor) -> Tensor:
        """Map expected remaining rounds, any shape, on their own device."""
        return interpolate(expected, self.knots(expected.dtype, expected.device))

    def knots(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Raw and calibrated rounds at the knots, ``[2, knots]``."""
        return torch.tensor([self.raw, self.calibrated], dtype=dtype, device=device)


def interpolate(expected: Tensor, knots: Tensor) -> Tensor:
    """Apply a map given as :meth:`CalibrationMap.knots`: only kernels, so that graphs capture it.

    Args:
        expected: any shape, on the device and of the type of ``knots``.
        knots: ``[2, knots]``.
    """
    raw, calibrated = knots
    right = torch.searchsorted(raw, expected.contiguous()).clamp(1, len(raw) - 1)
    left = right - 1
    slope = (calibrated[right] - calibrated[left]) / (raw[right] - raw[left])
    inside = calibrated[left] + slope * (expected - raw[left])
    return torch.where(expected > raw[-1], expected * (calibrated[-1] / raw[-1]), inside)


def fit_calibration(expected: NDArray[np.float64], actual: NDArray[np.int64]) -> CalibrationMap:
    """Fit the map on predictions for requests that the predicting networks did not see.

    Args:
        expected: raw out-of-fold expectations of remaining rounds, ``[n]``, at least 1.
        actual: observed remaining rounds, ``[n]``, at least 1, no censored ones.

    Raises:
        ValueError: there is no request.
    """
    if len(expected) == 0:
        raise ValueError("calibration needs at least one request")
    order = np.argsort(expected, kind="stable")
    pools = max(1, min(MAX_KNOTS, len(order) // MIN_POOL))
    blocks = median_isotonic(
        [actual[index] for index in np.array_split(order, pools)],
    )
    # Each block is one knot: the median expectation of its requests, and their median rounds.
    bounds = np.cumsum([0, *(len(block) for block in blocks)])
    centres = [
        float(np.median(expected[order[start:stop]])) for start, stop in itertools.pairwise(bounds)
    ]
    knots = [(1.0, 1.0)]
    for centre, block in zip(centres, blocks, strict=True):
        previous, value = knots[-1]
        # Expectations that float32 hardly tells apart share a knot.
        if distinct(previous, centre):
            least = value + _MIN_SLOPE * (centre - previous)
            knots.append((centre, max(float(np.median(block)), least)))
    if len(knots) == 1:
        knots.append((2.0, 2.0))
    raw, calibrated = zip(*knots, strict=True)
    return CalibrationMap(raw, calibrated)


def median_isotonic(pools: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
    """Pool adjacent violators under absolute loss.

    Merges neighbouring pools until their medians increase strictly; a block's median is then the
    isotonic regression under absolute loss of every request in it (Robertson & Wright 1980,
    "Algorithms in order restricted statistical inference and the Cauchy mean value property").

    Args:
        pools: observations in the order of the predictor, each ``[m >= 1]``.

    Returns:
        The merged pools, in order.
    """
    blocks: list[NDArray[np.int64]] = []
    for pool in pools:
        block = pool
        while blocks and np.median(blocks[-1]) >= np.median(block):
            block = np.concatenate([blocks.pop(), block])
        blocks.append(block)
    return blocks
