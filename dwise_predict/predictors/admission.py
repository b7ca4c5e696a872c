"""Rounds predicted when a request arrives: LightGBM on prompt features (paper Section 4.2).

The regression target is log(rounds), so the prediction ``exp(.)`` is a geometric mean: on the
right-skewed rounds of a workload that is close to the *median*, not to the mean (the paper reports
a median predicted/actual ratio of 1.03). Refined estimates are calibrated to the same scale.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dwise_predict.predictors.errors import TrainingError
from dwise_predict.predictors.examples import group_folds
from dwise_predict.predictors.features import (
    BINS,
    TokenIds,
    column_names,
    counts_matrix,
    feature_matrix,
    token_counts,
)
from dwise_predict.predictors.step_table import StepTable
from dwise_predict.predictors.trees import END, TreeText, check_tree_text
from dwise_predict.recipe import AdmissionFeatures, AdmissionSettings

if TYPE_CHECKING:
    import lightgbm

FOLDS = 4
"""Of the prompts, to choose how many trees are added."""
_MOST = 10**6
"""Trees, and leaves of a tree, of models that were not limited before."""
_BATCH_ROWS = 4096
"""Rows of an ``extended`` matrix at a time, 32 MiB."""

Single = Callable[[float, float, float, TokenIds | None], float]
Batch = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def fit_admission(
    features: NDArray[np.float64],
    rounds: NDArray[np.int64],
    settings: AdmissionSettings,
    seed: int,
) -> AdmissionPredictor:
    """Train on finished requests; the same data and seed give the same bytes.

    Args:
        features: ``[n, columns]``, what
            :func:`~dwise_predict.predictors.features.feature_matrix` gives for the settings.
        rounds: total denoising rounds, ``[n]``, at least 1.
        settings: features and size of the model.
        seed: seed of LightGBM's own choices.

    Raises:
        TrainingError: there is no request.
    """
    import lightgbm  # half a second that predicting need not spend

    if len(rounds) == 0:
        raise TrainingError("admission predictor: no finished training request")
    data = _dataset(features, rounds, settings)
    booster = lightgbm.train(_parameters(settings, seed), data, settings.trees)
    return _predictor_of(booster, settings.features)


def continue_admission(
    start: AdmissionPredictor,
    features: NDArray[np.float64],
    rounds: NDArray[np.int64],
    prompt: NDArray[np.str_],
    settings: AdmissionSettings,
    seed: int,
) -> AdmissionPredictor:
    """Correct ``start`` on these requests: by a factor, and by at most ``settings.trees`` trees.

    The factor is the one that makes the mean error of log(rounds) zero. There are as many trees as
    give the least squared error of log(rounds) on prompts that neither factor nor trees saw, in
    :data:`FOLDS` folds. What does not help in every fold may be chance: where nothing does,
    ``start`` is returned.

    Args:
        start: what to continue; its trees stay as they are, but for the factor.
        features: as in :func:`fit_admission`.
        rounds: total denoising rounds, ``[n]``, at least 1.
        prompt: identifies the prompt of each request, ``[n]``; at least two distinct ones.
        settings: of the added trees.
        seed: of the folds and of LightGBM's own choices.
    """
    import lightgbm

    parameters = _parameters(settings, seed)
    own = lightgbm.Booster(model_str=start.text)
    errors = np.log(rounds) - own.predict(features, num_threads=1)
    folds = group_folds(prompt, min(FOLDS, len(np.unique(prompt))), seed)
    unseen_errors = np.empty((folds.max() + 1, 1 + settings.trees))
    for fold, of_fold in enumerate(unseen_errors):
        inside = folds == fold
        shift = float(errors[~inside].mean())
        of_fold[0] = np.square(errors[inside] - shift).sum()
        rest = _dataset(features[~inside], rounds[~inside], settings)
        unseen = _dataset(features[inside], rounds[inside], settings, rest)
        history: dict[str, dict[str, list[float]]] = {}
        lightgbm.train(
            parameters,
            rest,
            settings.trees,
            valid_sets=[unseen],
            valid_names=["unseen"],
            init_model=_shifted(start, shift),
            callbacks=[lightgbm.record_evaluation(history)],
        )
        of_fold[1:] = np.array(history["unseen"]["l2"]) * inside.sum()
    before = np.bincount(folds, weights=np.square(errors))
    helps = (unseen_errors < before[:, None]).all(axis=0)
    if not helps.any():
        return start
    added = int(np.where(helps, unseen_errors.sum(axis=0), np.inf).argmin())
    booster = _shifted(start, float(errors.mean()))
    if added:
        data = _dataset(features, rounds, settings)
        booster = lightgbm.train(parameters, data, added, init_model=booster)
    return _predictor_of(booster, settings.features)


def scaled_admission(start: AdmissionPredictor, factor: float) -> AdmissionPredictor:
    """Multiply the predictions of ``start`` by ``factor``; they stay 1 at least."""
    return _predictor_of(_shifted(start, math.log(factor)), start.features)


def _shifted(start: AdmissionPredictor, shift: float) -> lightgbm.Booster:
    """The model of ``start`` with ``shift`` added to its output, which is log(rounds)."""
    import lightgbm

    booster = lightgbm.Booster(model_str=start.text)
    # Each row reaches exactly one leaf of the first tree.
    for leaf in range(booster.dump_model(num_iteration=1)["tree_info"][0]["num_leaves"]):
        booster.set_leaf_output(0, leaf, booster.get_leaf_output(0, leaf) + shift)
    return booster


def _parameters(settings: AdmissionSettings, seed: int) -> dict[str, object]:
    return {
        "objective": "regression",
        "num_leaves": settings.leaves,
        "learning_rate": settings.learning_rate,
        "min_data_in_leaf": settings.min_leaf,
        "deterministic": True,
        "force_row_wise": True,
        # One thread: the sums, and so the trees, do not depend on how many cores there are.
        "num_threads": 1,
        "seed": seed,
        "verbosity": -1,
    }


def _dataset(
    features: NDArray[np.float64],
    rounds: NDArray[np.int64],
    settings: AdmissionSettings,
    reference: lightgbm.Dataset | None = None,
) -> lightgbm.Dataset:
    import lightgbm

    names = list(column_names(settings.features))
    return lightgbm.Dataset(features, np.log(rounds), reference, feature_name=names)


def _predictor_of(booster: lightgbm.Booster, features: AdmissionFeatures) -> AdmissionPredictor:
    text = booster.model_to_string()
    # What follows the trees (importances, every default parameter) is not needed to predict.
    return AdmissionPredictor(text[: text.index(END)] + END, features=features)


class AdmissionPredictor:
    """Predicts total denoising rounds from prompt features.

    An ensemble of the usual size on the features ``sizes`` is turned into a table of all its steps
    (:class:`~dwise_predict.predictors.step_table.StepTable`): predictions take less than a
    microsecond, are those of LightGBM to the last bit, and need no LightGBM. A larger one, or one
    on the features ``extended``, is predicted by LightGBM. Objects may be shared between threads.

    Args:
        text: LightGBM model text up to ``end of trees``.
        checked: what :func:`~dwise_predict.predictors.trees.check_tree_text` said about ``text``;
            None: it is asked here.
        features: that the text is about, where it is not checked yet.

    Raises:
        TreeTextError: the text is not such a model.
    """

    def __init__(
        self, text: str, checked: TreeText | None = None, features: AdmissionFeatures = "sizes"
    ) -> None:
        self.text = text
        self._checked = checked or check_tree_text(text, _MOST, _MOST, features)
        self._single, self._batch = _functions(text, self._checked)

    @property
    def features(self) -> AdmissionFeatures:
        """What the predictor has to be told."""
        return self._checked.features

    def rounds(
        self,
        *,
        words: float,
        newlines: float,
        prompt_tokens: float,
        token_ids: TokenIds | None = None,
    ) -> float:
        """Predict the rounds of one request, at least 1 (median scale), in microseconds.

        Args:
            words: whitespace-separated words of the prompt.
            newlines: newline characters of the prompt.
            prompt_tokens: tokens after the chat template.
            token_ids: these tokens; not read with the features ``sizes``.

        Raises:
            ValueError: the features are ``extended`` and there are no token ids.
        """
        return self._single(words, newlines, prompt_tokens, token_ids)

    def rounds_batch(
        self,
        words: ArrayLike,
        newlines: ArrayLike,
        prompt_tokens: ArrayLike,
        token_ids: Sequence[TokenIds] | None = None,
    ) -> NDArray[np.float64]:
        """Predict the rounds of ``n`` requests; what ``n`` calls of :meth:`rounds` give."""
        if self.features == "sizes":
            return self._batch(feature_matrix(words, newlines, prompt_tokens))
        if token_ids is None:
            raise _lacks_tokens()
        matrices = _extended_matrices(words, newlines, prompt_tokens, token_ids)
        return np.concatenate([np.empty(0), *map(self._batch, matrices)])

    def size(self) -> tuple[int, int]:
        """Return the number of trees and the most leaves of any tree."""
        return self._checked.trees, self._checked.leaves

    def close(self) -> None:
        """Free the memory of the model now; later predictions raise ``ValueError``."""
        self._single = self._batch = _closed

    def __enter__(self) -> AdmissionPredictor:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _extended_matrices(
    words: ArrayLike, newlines: ArrayLike, prompt_tokens: ArrayLike, token_ids: Sequence[TokenIds]
) -> Iterator[NDArray[np.float64]]:
    sizes = feature_matrix(words, newlines, prompt_tokens)
    if len(token_ids) != len(sizes):
        raise ValueError(f"token_ids of {len(token_ids)} prompts, sizes of {len(sizes)}")
    for start in range(0, len(sizes), _BATCH_ROWS):
        rows = slice(start, start + _BATCH_ROWS)
        yield np.hstack([sizes[rows], counts_matrix(token_ids[rows])])


def _functions(text: str, checked: TreeText) -> tuple[Single, Batch]:
    table = StepTable.build(checked.structure) if checked.features == "sizes" else None
    return _of_booster(text, checked.features) if table is None else _of_table(table)


def _of_table(table: StepTable) -> tuple[Single, Batch]:
    rounds = np.maximum(np.exp(table.values), 1.0).reshape(-1)
    words_steps, newline_steps, token_steps = table.thresholds
    rows, columns = int(table.values.shape[1]), int(table.values.shape[2])
    # Items of a memoryview are Python floats, several times faster than those of an array.
    flat = cast("Sequence[float]", rounds.data)

    def single(
        words: float, newlines: float, prompt_tokens: float, token_ids: TokenIds | None
    ) -> float:
        cell = bisect_left(words_steps, words) * rows + bisect_left(newline_steps, newlines)
        return flat[cell * columns + bisect_left(token_steps, prompt_tokens)]

    def batch(features: NDArray[np.float64]) -> NDArray[np.float64]:
        return rounds[table.cells(features)]

    return single, batch


def _of_booster(text: str, kind: AdmissionFeatures) -> tuple[Single, Batch]:
    from dwise_predict.predictors.booster import BoosterPredictor

    booster = BoosterPredictor(text)

    def sizes(
        words: float, newlines: float, prompt_tokens: float, token_ids: TokenIds | None
    ) -> float:
        return max(math.exp(booster.one(words, newlines, prompt_tokens)), 1.0)

    def extended(
        words: float, newlines: float, prompt_tokens: float, token_ids: TokenIds | None
    ) -> float:
        if token_ids is None:
            raise _lacks_tokens()
        counts = token_counts(token_ids)
        return max(math.exp(booster.one(words, newlines, prompt_tokens, counts)), 1.0)

    def batch(features: NDArray[np.float64]) -> NDArray[np.float64]:
        if len(features) == 0:
            return np.empty(0)
        return np.maximum(np.exp(booster.many(features)), 1.0)

    return (extended if kind == "extended" else sizes), batch


def _lacks_tokens() -> ValueError:
    return ValueError(
        "this predictor's features are extended: it also needs token_ids, the tokens of the "
        f"prompt, which it counts in {BINS} bins"
    )


def _closed(*features: object) -> NoReturn:
    raise ValueError("the admission predictor is closed")
