"""Assembles metrics.json from predictions for evaluation requests."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dwise_predict.bundle.metrics import (
    CategoryRank,
    RankMetrics,
    RoundsSummary,
    SurvivalMetrics,
)
from dwise_predict.evaluation.survival import (
    concordance_index,
    coverage,
    d_calibration,
    integrated_brier,
    randomised_survival,
)
from dwise_predict.predictors.examples import Examples
from dwise_predict.predictors.refiner import Refiner
from dwise_predict.rank import (
    mean_absolute_error,
    median_ratio,
    spearman,
    spearman_within,
)
from dwise_predict.recipe import Duration

MIN_D_CALIBRATION = 50
"""Fewest requests for D-calibration: five expected in each bin, the usual chi-squared rule."""


def rounds_summary(rounds: NDArray[np.int64]) -> RoundsSummary:
    """Summarise total rounds, ``[n >= 1]``."""
    p10, p25, p50, p90 = (float(p) for p in np.percentile(rounds, [10, 25, 50, 90]))
    return RoundsSummary(
        p10=p10, p25=p25, p50=p50, p90=p90, max=float(rounds.max()), mean=float(rounds.mean())
    )


def rank_metrics(predicted: NDArray[np.float64], ranked: Examples) -> RankMetrics:
    """Compare predicted total rounds, ``[n >= 1]``, with those of finished requests."""
    within = spearman_within(predicted, ranked.rounds, ranked.category)
    return RankMetrics(
        spearman=spearman(predicted, ranked.rounds),
        spearman_within=within.mean,
        categories=len(within.by_category),
        undefined_categories=within.undefined,
        median_ratio=median_ratio(predicted, ranked.rounds),
        mae=mean_absolute_error(predicted, ranked.rounds),
        by_category={
            name: _category_rank(predicted, ranked, name, value)
            for name, value in within.by_category.items()
        },
    )


def _category_rank(
    predicted: NDArray[np.float64], ranked: Examples, name: str, rank: float | None
) -> CategoryRank:
    inside = ranked.category == name
    ratio = median_ratio(predicted[inside], ranked.rounds[inside])
    return CategoryRank(n=int(inside.sum()), spearman=rank, median_ratio=ratio)


def survival_metrics(refiner: Refiner, evaluation: Examples, duration: Duration) -> SurvivalMetrics:
    """Judge predicted distributions on requests of more than one round, aborted ones censored."""
    known = evaluation.take(evaluation.durations > 0)
    if len(known) == 0:
        return SurvivalMetrics(c_index=None, integrated_brier=None, d_calibration_p=None)
    remaining = refiner(known.hidden, known.prompt_tokens, known.budget_tokens)
    survival = remaining.survival().double().cpu().numpy()
    expected = remaining.mean(calibrated=False).double().cpu().numpy()
    events = known.events(duration)
    at_end = randomised_survival(survival, known.durations, events)
    enough = len(known) >= MIN_D_CALIBRATION
    return SurvivalMetrics(
        c_index=concordance_index(expected, known.durations, events),
        integrated_brier=integrated_brier(survival, known.durations, events),
        d_calibration_p=d_calibration(at_end, events) if enough else None,
        coverage_80=coverage(at_end, events, 0.8) if enough else None,
    )


def survival_at_end(refiner: Refiner, known: Examples, duration: Duration) -> NDArray[np.float64]:
    """Predicted survival at the observed ends of requests of more than one round, ``[n]``.

    Jumps of the discrete distributions are filled as :func:`survival_metrics` does.
    """
    remaining = refiner(known.hidden, known.prompt_tokens, known.budget_tokens)
    survival = remaining.survival().double().cpu().numpy()
    return randomised_survival(survival, known.durations, known.events(duration))
