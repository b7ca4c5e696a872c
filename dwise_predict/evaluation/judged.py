"""What a bundle says of profiled requests, beside what they took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dwise_predict.bundle.metrics import RankMetrics, SurvivalMetrics
from dwise_predict.evaluation.metrics import (
    MIN_D_CALIBRATION,
    rank_metrics,
    survival_at_end,
    survival_metrics,
)
from dwise_predict.evaluation.predictors import Predictors
from dwise_predict.evaluation.survival import coverage
from dwise_predict.predictors.examples import Examples
from dwise_predict.predictors.fitting import expected_remaining
from dwise_predict.predictors.threads import one_thread
from dwise_predict.rank import mean_absolute_error, median_ratio, spearman
from dwise_predict.recipe import Duration

FIGURES = (
    "refined rank inside",
    "refined rank overall",
    "admission rank overall",
    "refined ratio",
    "admission ratio",
    "coverage",
    "refined error",
    "admission error",
)
"""Names of the columns of :meth:`Judged.figures`."""


@dataclass(frozen=True)
class Judged:
    """Predictions of ``n`` requests.

    Attributes:
        examples: the requests.
        admission: predicted total rounds, ``[n]``; NaN where the profile lacks what the admission
            predictor needs.
        refined_raw: predicted total rounds after the first, uncalibrated, ``[n]``.
        refined: the same, calibrated.
        at_end: survival at the end, as :func:`coverage` takes it, ``[n]``; NaN for requests that
            ended in their first round.
        survival: of the predicted distributions.
        duration: what ends a request, by the bundle.
    """

    examples: Examples
    admission: NDArray[np.float64]
    refined_raw: NDArray[np.float64]
    refined: NDArray[np.float64]
    at_end: NDArray[np.float64]
    survival: SurvivalMetrics
    duration: Duration

    @property
    def knows_admission(self) -> bool:
        """Whether there are admission predictions."""
        return not np.isnan(self.admission).any()

    def ranks(self) -> dict[str, RankMetrics | None]:
        """Each predictor on the requests that were served to their end (one at least)."""
        rows = self.examples.finished
        ranked = self.examples.take(rows)
        return {
            "admission": rank_metrics(self.admission[rows], ranked)
            if self.knows_admission
            else None,
            "refined": rank_metrics(self.refined[rows], ranked),
            "refined_raw": rank_metrics(self.refined_raw[rows], ranked),
        }

    def figures(
        self, rows: NDArray[np.int64], weights: Sequence[tuple[str, float]]
    ) -> NDArray[np.float64]:
        """:data:`FIGURES` of the given rows, NaN where undefined.

        ``weights`` are categories and their weight in the ranks that are not overall; those in
        which a rank is undefined are left out.
        """
        served = rows[self.examples.finished[rows]]
        rounds, category = self.examples.rounds[served], self.examples.category[served]
        refined, admission = self.refined[served], self.admission[served]
        inside = [(category == name, weight) for name, weight in weights]
        after_first = rows[self.examples.durations[rows] > 0]
        events = self.examples.events(self.duration)[after_first]
        return np.array(
            [
                _weighted(refined, rounds, inside),
                _rank(refined, rounds),
                _rank(admission, rounds),
                median_ratio(refined, rounds) if len(served) else np.nan,
                median_ratio(admission, rounds) if len(served) else np.nan,
                coverage(self.at_end[after_first], events, 0.8)
                if len(after_first) >= MIN_D_CALIBRATION
                else np.nan,
                mean_absolute_error(refined, rounds) if len(served) else np.nan,
                mean_absolute_error(admission, rounds) if len(served) else np.nan,
            ]
        )


@one_thread()
def judge(predictors: Predictors, examples: Examples, duration: Duration) -> Judged:
    """Predict ``examples`` (one at least) and compare with what they took."""
    refiner = predictors.refiner
    at_end = np.full(len(examples), np.nan)
    more = examples.durations > 0
    if more.any():
        at_end[more] = survival_at_end(refiner, examples.take(more), duration)
    lacks = predictors.admission.features == "extended" and any(
        bins is None for bins in examples.token_bins
    )
    return Judged(
        examples=examples,
        admission=np.full(len(examples), np.nan)
        if lacks
        else predictors.admission.rounds_batch(
            examples.words, examples.newlines, examples.prompt_tokens, examples.token_bins.tolist()
        ),
        refined_raw=1 + expected_remaining(refiner, examples),
        refined=1 + expected_remaining(refiner, examples, calibrated=True),
        at_end=at_end,
        survival=survival_metrics(refiner, examples, duration),
        duration=duration,
    )


def _rank(predicted: NDArray[np.float64], rounds: NDArray[np.int64]) -> float:
    if len(predicted) == 0 or np.isnan(predicted[0]):
        return np.nan
    rank = spearman(predicted, rounds)
    return np.nan if rank is None else rank


def _weighted(
    predicted: NDArray[np.float64],
    rounds: NDArray[np.int64],
    inside: Sequence[tuple[NDArray[np.bool_], float]],
) -> float:
    ranks = np.array([_rank(predicted[rows], rounds[rows]) for rows, _ in inside])
    weights = np.array([weight for _, weight in inside])
    known = np.isfinite(ranks)
    return float(np.average(ranks[known], weights=weights[known])) if known.any() else np.nan
