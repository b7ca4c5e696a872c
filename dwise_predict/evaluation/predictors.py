"""Trains both predictors together, and again without some categories to see what transfers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dwise_predict.bundle.metrics import HeldOut, Transfer
from dwise_predict.predictors.admission import AdmissionPredictor, fit_admission
from dwise_predict.predictors.examples import Examples
from dwise_predict.predictors.features import feature_matrix
from dwise_predict.predictors.fitting import MIN_PROMPTS, expected_remaining, fit_refiner
from dwise_predict.predictors.refiner import Refiner
from dwise_predict.progress import SILENT, Progress
from dwise_predict.rank import spearman, spearman_within
from dwise_predict.recipe import PredictorSettings


@dataclass(frozen=True)
class Predictors:
    """A trained pair; the refiner may still lack its calibration."""

    admission: AdmissionPredictor
    refiner: Refiner


@dataclass(frozen=True)
class Predictions:
    """Predicted total denoising rounds of ``n`` requests, float64 ``[n]`` each."""

    admission: NDArray[np.float64]
    refined_raw: NDArray[np.float64]
    refined: NDArray[np.float64]


def fit_predictors(
    train: Examples, settings: PredictorSettings, seed: int, progress: Progress = SILENT
) -> Predictors:
    """Train both predictors, without calibration.

    The admission predictor learns from finished requests only: a regression has no place for
    "at least so many rounds". The refiner's likelihood does.
    """
    admission = fit_finished_admission(train, settings, seed)
    return Predictors(admission, fit_refiner(train, settings.refiner, seed, progress))


def fit_finished_admission(
    train: Examples, settings: PredictorSettings, seed: int
) -> AdmissionPredictor:
    """Train the admission predictor on the requests that were served to their end."""
    known = train.take(train.finished)
    tokens = None if settings.admission.features == "sizes" else known.token_bins.tolist()
    features = feature_matrix(known.words, known.newlines, known.prompt_tokens, tokens)
    return fit_admission(features, known.rounds, settings.admission, seed)


def predict(predictors: Predictors, examples: Examples) -> Predictions:
    """Predict total rounds: the refiner's remaining rounds plus the one already done."""
    return Predictions(
        admission=predictors.admission.rounds_batch(
            examples.words,
            examples.newlines,
            examples.prompt_tokens,
            examples.token_bins.tolist(),
        ),
        refined_raw=1 + expected_remaining(predictors.refiner, examples),
        refined=1 + expected_remaining(predictors.refiner, examples, calibrated=True),
    )


MIN_RANKED = 5
"""Fewest evaluation requests of a category that is held out: ranks of fewer say nothing, and a
workload with a category for every request would retrain once for each."""


def held_out_groups(categories: list[str]) -> list[tuple[str, ...]]:
    """Each category alone, and all multiple-choice ones together (paper Table 7).

    Two multiple-choice categories resemble each other, so that holding out one alone shows little.
    """
    groups: list[tuple[str, ...]] = [(category,) for category in categories]
    choice = tuple(category for category in categories if "choice" in category)
    return [*groups, choice] if len(choice) > 1 else groups


def hold_out(
    train: Examples,
    ranked: Examples,
    seen: Predictions,
    settings: PredictorSettings,
    seed: int,
    progress: Progress = SILENT,
) -> tuple[dict[str, HeldOut], dict[str, str]]:
    """Retrain without each group of categories and rank the evaluation requests again.

    Ranks do not change under calibration, so none is fitted. Retrained refiners have as many
    members as the bundle's.

    Args:
        train: training requests.
        ranked: evaluation requests that were served to their end.
        seen: predictions for ``ranked`` by the predictors trained on all of ``train``.
        settings: of both predictors.
        seed: the bundle's.
        progress: told about each group.

    Returns:
        Results by group name, and for each group that cannot be held out the reason.
    """
    groups = held_out_groups([str(name) for name in np.unique(ranked.category)])
    results, skipped = {}, {}
    with progress.task("holding categories out", len(groups)) as advance:
        for group in groups:
            name = "+".join(group)
            rest = train.take(~np.isin(train.category, group))
            usable = rest.take(rest.finished & (rest.durations > 0))
            prompts = len(np.unique(usable.prompt))
            ranks = int(np.isin(ranked.category, group).sum())
            if ranks < MIN_RANKED:
                skipped[name] = f"{ranks} evaluation requests, {MIN_RANKED} are needed"
            elif prompts < MIN_PROMPTS:
                skipped[name] = f"{prompts} other training prompts, {MIN_PROMPTS} are needed"
            elif not usable.events(settings.refiner.duration).any():
                skipped[name] = "no other training request has a known duration"
            else:
                unseen = predict(fit_predictors(rest, settings, seed), ranked)
                results[name] = _held_out(group, len(rest), ranked, seen, unseen)
            advance(1)
    return results, skipped


def _held_out(
    group: tuple[str, ...], n_train: int, ranked: Examples, seen: Predictions, unseen: Predictions
) -> HeldOut:
    return HeldOut(
        categories=group,
        n_train=n_train,
        n_eval=int(np.isin(ranked.category, group).sum()),
        admission=_transfer(group, ranked, seen.admission, unseen.admission),
        refined=_transfer(group, ranked, seen.refined_raw, unseen.refined_raw),
    )


def _transfer(
    group: tuple[str, ...],
    ranked: Examples,
    seen: NDArray[np.float64],
    unseen: NDArray[np.float64],
) -> Transfer:
    inside = np.isin(ranked.category, group)
    category = ranked.category[inside]
    return Transfer(
        in_training=spearman_within(seen[inside], ranked.rounds[inside], category).mean,
        held_out=spearman_within(unseen[inside], ranked.rounds[inside], category).mean,
        all_in_training=spearman(seen, ranked.rounds),
        all_held_out=spearman(unseen, ranked.rounds),
    )
