"""How good predicted distributions are when some durations are censored: pure functions.

Agrees with scikit-survival (concordance, Brier score) and SurvivalEVAL (D-calibration) on the same
inputs; the tests hold their results.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

BINS = 10
"""Equal-width probability bins of D-calibration, as in its paper."""


def concordance_index(
    predicted: NDArray[np.float64], durations: NDArray[np.int64], events: NDArray[np.bool_]
) -> float | None:
    """Harrell's concordance: share of comparable pairs that the predictions order rightly.

    A pair is comparable when the request that ended first did so with an event; of two equal
    durations, when exactly one is an event (it ended first). Equal predictions count one half.

    Args:
        predicted: predicted durations, ``[n]``.
        durations: observed durations, ``[n]``.
        events: False where censored, ``[n]``.

    Returns:
        A number in [0, 1], or None when no pair is comparable.
    """
    concordant = comparable = 0.0
    for i in np.flatnonzero(events):
        later = (durations > durations[i]) | ((durations == durations[i]) & ~events)
        comparable += later.sum()
        concordant += (predicted[later] > predicted[i]).sum()
        concordant += 0.5 * (predicted[later] == predicted[i]).sum()
    return float(concordant / comparable) if comparable else None


def censoring_survival(
    durations: NDArray[np.int64], events: NDArray[np.bool_], horizon: int
) -> NDArray[np.float64]:
    """Kaplan-Meier estimate of P(not censored up to and including t), t = 0..horizon.

    Where both happen in the same round, the event comes first.
    """
    rounds = np.arange(1, horizon + 1)
    exposed = (durations[:, None] >= rounds).sum(0)
    ended = np.bincount(durations[events], minlength=horizon + 1)[1 : horizon + 1]
    censored = np.bincount(durations[~events], minlength=horizon + 1)[1 : horizon + 1]
    at_risk = np.maximum(exposed - ended, 1)
    return np.concatenate([[1.0], np.cumprod(1 - censored / at_risk)])


def brier_scores(
    survival: NDArray[np.float64], durations: NDArray[np.int64], events: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Brier score at each round, weighted by the inverse probability of censoring (Graf 1999).

    The censoring distribution is estimated on the same requests.

    Args:
        survival: P(duration > t) in column t = 0..K, ``[n, K + 1]``.
        durations: observed durations, ``[n]``, at least 1.
        events: False where censored, ``[n]``.

    Returns:
        float64 ``[K + 1]``; column 0 is trivially 0.
    """
    horizon = survival.shape[1] - 1
    uncensored = censoring_survival(durations, events, max(horizon, int(durations.max())))
    # A weight that would divide by zero belongs to nobody (as in scikit-survival): weight 0.
    inverse = np.divide(1.0, uncensored, out=np.zeros_like(uncensored), where=uncensored > 0)
    rounds = np.arange(horizon + 1)
    ended = (durations[:, None] <= rounds) & events[:, None]
    going = durations[:, None] > rounds
    squares = (
        survival**2 * ended * inverse[durations][:, None]
        + (1 - survival) ** 2 * going * inverse[: horizon + 1]
    )
    return np.asarray(squares.mean(0))


def integrated_brier(
    survival: NDArray[np.float64], durations: NDArray[np.int64], events: NDArray[np.bool_]
) -> float | None:
    """Brier score averaged over rounds 1 .. the last before the longest duration (trapezoid).

    Returns:
        0 is perfect, 0.25 what knowing nothing gives; None when fewer than two rounds remain.
    """
    last = min(int(durations.max()) - 1, survival.shape[1] - 1)
    if last < 2:
        return None
    scores = brier_scores(survival, durations, events)[1 : last + 1]
    return float(((scores[1:] + scores[:-1]) / 2).mean())


def d_calibration(survival_at_end: NDArray[np.float64], events: NDArray[np.bool_]) -> float:
    """P-value that survival probabilities at the observed ends are uniform (Haider et al. 2020).

    Below 0.05, the predicted probabilities are off. A request censored at probability s is spread
    evenly over [0, s], where its event will fall.

    Args:
        survival_at_end: S(T) of continuous distributions, or a draw from [S(T), S(T - 1)] for
            discrete ones (see :func:`randomised_survival`), ``[n]`` in [0, 1].
        events: False where censored, ``[n]``.
    """
    counts = np.zeros(BINS)
    own = np.minimum((survival_at_end * BINS).astype(np.int64), BINS - 1)
    np.add.at(counts, own[events], 1.0)
    for s, bin_ in zip(survival_at_end[~events], own[~events], strict=True):
        if s == 0:
            counts[0] += 1
            continue
        counts[:bin_] += 1 / (BINS * s)
        counts[bin_] += 1 - bin_ / (BINS * s)
    expected = len(events) / BINS
    statistic = ((counts - expected) ** 2 / expected).sum()
    # Upper tail of the chi-squared distribution with BINS - 1 degrees of freedom.
    half = torch.tensor([(BINS - 1) / 2, statistic / 2], dtype=torch.float64)
    return float(torch.special.gammaincc(half[0], half[1]))


def coverage(
    survival_at_end: NDArray[np.float64], events: NDArray[np.bool_], share: float
) -> float:
    """Share of requests inside the central interval that should hold ``share`` of them.

    As in :func:`d_calibration`, a request censored at probability s counts with the part of
    [0, s] that lies inside.

    Args:
        survival_at_end: as in :func:`d_calibration`, ``[n >= 1]``.
        events: False where censored, ``[n]``.
        share: of probability between the two quantiles, in (0, 1).
    """
    low, high = (1 - share) / 2, (1 + share) / 2
    inside = ((survival_at_end >= low) & (survival_at_end <= high)).astype(np.float64)
    part = np.clip(np.minimum(survival_at_end, high) - low, 0, None)
    spread = np.divide(part, survival_at_end, out=np.zeros_like(part), where=survival_at_end > 0)
    return float(np.where(events, inside, spread).mean())


def randomised_survival(
    survival: NDArray[np.float64],
    durations: NDArray[np.int64],
    events: NDArray[np.bool_],
    seed: int = 0,
) -> NDArray[np.float64]:
    """Survival at the observed ends with the jump of discrete distributions filled at random.

    If the predictions are right, S(T) of a discrete T is not uniform, but a uniform draw from
    [S(T), S(T - 1)] is. Censored requests keep S(T). Durations beyond the horizon count as K + 1.

    Args:
        survival: P(duration > t) in column t = 0..K, ``[n, K + 1]``.
        durations: ``[n]``, at least 1.
        events: False where censored, ``[n]``.
        seed: of the draws; fixed, so that metrics repeat.

    Returns:
        float64 ``[n]``.
    """
    rows = np.arange(len(durations))
    padded = np.concatenate([survival, np.zeros((len(survival), 1))], axis=1)
    end = np.minimum(durations, padded.shape[1] - 1)
    after, before = padded[rows, end], padded[rows, end - 1]
    drawn = after + (before - after) * np.random.default_rng(seed).random(len(rows))
    return np.asarray(np.where(events, drawn, after))
