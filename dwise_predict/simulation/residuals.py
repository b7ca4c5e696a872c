"""Indices of a request by the rounds it has done since it was estimated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dwise_predict.simulation.workload import FloatArray


def mean_residuals(samples: FloatArray, horizon: int) -> FloatArray:
    """Expected remaining rounds after t rounds, t = 0 to ``horizon``: float64 [horizon + 1].

    ``samples`` float64 [n] are equally likely total rounds. Beyond the largest one round is left:
    the request goes on though none of the samples does.
    """
    left = _left(samples, horizon)
    alive = np.isfinite(left)
    total = np.where(alive, left, 0.0).sum(axis=1)
    means: FloatArray = np.where(alive.any(axis=1), total / np.maximum(alive.sum(axis=1), 1), 1.0)
    return means


def gittins_indices(samples: FloatArray, horizon: int) -> FloatArray:
    """Gittins index after t rounds, t = 0 to ``horizon``: float64 [horizon + 1].

    The least ratio, over spans d, of the expected rounds served within d to the chance to end
    within d (Gittins, Glazebrook and Weber, 2011, Section 3.5): with equally likely samples the
    best d ends at one of them. Where hazards rise it is the mean residual.
    """
    left = np.sort(_left(samples, horizon), axis=1)
    alive = np.isfinite(left)
    known = np.where(alive, left, 0.0)
    ending = np.arange(1, left.shape[1] + 1)
    remaining = alive.sum(axis=1, keepdims=True)
    served = np.cumsum(known, axis=1) + known * (remaining - ending)
    ratios = np.where(alive, served / ending, np.inf).min(axis=1)
    indices: FloatArray = np.where(alive.any(axis=1), ratios, 1.0)
    return indices


def curves(
    estimates: FloatArray, ratios: FloatArray, horizon: int, gittins: bool
) -> list[Sequence[float]]:
    """One curve for each estimate, when true rounds are one of ``estimate * ratios``.

    Estimates are rounded to three digits, and equal ones share a curve.
    """
    index = gittins_indices if gittins else mean_residuals
    found: dict[float, tuple[float, ...]] = {}
    wanted = [float(f"{value:.3g}") for value in estimates]
    for value in wanted:
        if value not in found:
            found[value] = tuple(index(value * ratios, horizon).tolist())
    return [found[value] for value in wanted]


def _left(samples: FloatArray, horizon: int) -> FloatArray:
    """What each sample has left after t rounds, infinite once it has ended: [horizon + 1, n]."""
    left = samples[None, :] - np.arange(horizon + 1, dtype=np.float64)[:, None]
    return np.where(left > 0, left, np.inf)
