from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache

import lightgbm
import numpy as np
import pytest

from dwise_predict.predictors.admission import AdmissionPredictor, fit_admission
from dwise_predict.predictors.errors import TrainingError
from dwise_predict.predictors.features import feature_matrix
from dwise_predict.predictors.step_table import StepTable
from dwise_predict.predictors.trees import Tree, check_tree_text
from dwise_predict.recipe import AdmissionSettings
from tests.synthetic import synthetic_examples

EXAMPLES = synthetic_examples(400, seed=3, hidden=4)
FEATURES = feature_matrix(EXAMPLES.words, EXAMPLES.newlines, EXAMPLES.prompt_tokens)


def fitted(seed: int = 0) -> AdmissionPredictor:
    return fit_admission(FEATURES, EXAMPLES.rounds, AdmissionSettings(), seed)


LARGE = AdmissionSettings(trees=400, leaves=127, min_leaf=1)
"""More thresholds than a table takes."""


def fitted_large() -> AdmissionPredictor:
    rng = np.random.default_rng(0)
    features = rng.integers(0, 100_000, (3000, 3)).astype(np.float64)
    rounds = rng.integers(1, 300, 3000)
    return fit_admission(features, rounds, LARGE, seed=0)


@pytest.mark.parametrize("make", [fitted, fitted_large])
def test_predictions_are_those_of_lightgbm_to_the_last_bit(
    make: Callable[[], AdmissionPredictor],
) -> None:
    predictor = make()
    assert (StepTable.build(check_tree_text(predictor.text, 400, 127).structure) is None) == (
        make is fitted_large
    )
    booster = lightgbm.Booster(model_str=predictor.text)
    thresholds = [
        float(value)
        for line in predictor.text.splitlines()
        if line.startswith("threshold=")
        for value in line.removeprefix("threshold=").split()
    ]
    rng = np.random.default_rng(1)
    # On thresholds, beside them and far away.
    values = np.concatenate([thresholds, np.nextafter(thresholds, np.inf), [0, 1e9, -5]])
    rows = rng.choice(values, (5000, 3))
    expected = np.maximum(np.exp(booster.predict(rows, num_threads=1)), 1)
    np.testing.assert_array_equal(predictor.rounds_batch(*rows.T), expected)
    assert len(np.unique(expected)) > 100


@pytest.mark.parametrize("make", [fitted, fitted_large])
def test_single_row_path_equals_the_batch_path(make: Callable[[], AdmissionPredictor]) -> None:
    predictor = make()
    batch = predictor.rounds_batch(EXAMPLES.words, EXAMPLES.newlines, EXAMPLES.prompt_tokens)
    single = [
        predictor.rounds(words=w, newlines=n, prompt_tokens=t) for w, n, t in FEATURES.tolist()
    ]
    np.testing.assert_allclose(single, batch, rtol=1e-14)
    assert len(np.unique(batch)) > 10


def prompts(n: int, seed: int) -> list[list[int]]:
    """Token ids of prompts of 0 to 3,000 tokens."""
    rng = np.random.default_rng(seed)
    return [rng.integers(50_000, size=rng.integers(3_000)).tolist() for _ in range(n)]


TOKENS = prompts(len(EXAMPLES), seed=1)
SIZES = (EXAMPLES.words, EXAMPLES.newlines, EXAMPLES.prompt_tokens)


@lru_cache
def fitted_extended() -> AdmissionPredictor:
    matrix = feature_matrix(*SIZES, TOKENS)
    rounds = np.rint(2 + matrix[:, 10] + 3 * matrix[:, 500]).astype(np.int64)
    return fit_admission(matrix, rounds, EXTENDED, seed=0)


EXTENDED = AdmissionSettings(features="extended")


def test_extended_predictions_are_those_of_lightgbm_to_the_last_bit() -> None:
    predictor = fitted_extended()
    assert predictor.features == "extended"
    booster = lightgbm.Booster(model_str=predictor.text)
    unseen = prompts(len(EXAMPLES), seed=2)
    expected = np.maximum(np.exp(booster.predict(feature_matrix(*SIZES, unseen))), 1)
    np.testing.assert_array_equal(predictor.rounds_batch(*SIZES, unseen), expected)
    single = [
        predictor.rounds(words=w, newlines=n, prompt_tokens=t, token_ids=ids)
        for (w, n, t), ids in zip(FEATURES.tolist(), unseen, strict=True)
    ]
    np.testing.assert_allclose(single, expected, rtol=1e-14)
    assert len(np.unique(expected)) > 20
    assert predictor.text == fit_admission(
        feature_matrix(*SIZES, TOKENS),
        np.rint(2 + feature_matrix(*SIZES, TOKENS)[:, [10, 500]] @ [1, 3]).astype(np.int64),
        EXTENDED,
        seed=0,
    ).text  # fmt: skip


def test_a_batch_larger_than_one_matrix_is_all_predicted() -> None:
    n, predictor = 5_000, fitted_extended()
    repeated = [np.resize(column, n) for column in SIZES]
    unseen = [TOKENS[i % len(TOKENS)] for i in range(n)]
    expected = np.resize(predictor.rounds_batch(*SIZES, TOKENS), n)
    np.testing.assert_array_equal(predictor.rounds_batch(*repeated, unseen), expected)
    with pytest.raises(ValueError, match="token_ids of 4096 prompts, sizes of 5000"):
        predictor.rounds_batch(*repeated, unseen[:4096])
    assert predictor.rounds_batch([], [], [], []).shape == (0,)


def test_token_ids_are_required_by_extended_and_not_read_by_sizes() -> None:
    row = {"words": 40, "newlines": 3, "prompt_tokens": 77}
    for missing in (
        lambda: fitted_extended().rounds(**row),
        lambda: fitted_extended().rounds_batch([40], [3], [77]),
    ):
        with pytest.raises(ValueError, match="it also needs token_ids"):
            missing()
    sizes = fitted()
    assert sizes.rounds(**row, token_ids=[1, 2]) == sizes.rounds(**row)
    assert sizes.rounds_batch([40], [3], [77], [[1, 2]]) == sizes.rounds(**row)


def test_threads_share_an_extended_predictor() -> None:
    predictor = fitted_extended()
    expected = predictor.rounds_batch(*SIZES, TOKENS)
    wrong: list[int] = []

    def work(offset: int) -> None:
        for i in range(offset, len(TOKENS), 4):
            w, n, t = FEATURES[i]
            rounds = predictor.rounds(words=w, newlines=n, prompt_tokens=t, token_ids=TOKENS[i])
            if abs(rounds - expected[i]) > 1e-9:
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_same_data_and_seed_give_the_same_bytes() -> None:
    assert fitted().text == fitted().text


def test_predictions_are_geometric_means() -> None:
    rounds = np.array([2, 8] * 50)
    constant = fit_admission(np.ones((100, 3)), rounds, AdmissionSettings(), 0)
    assert constant.rounds(words=1, newlines=1, prompt_tokens=1) == pytest.approx(4)


def test_predictions_are_at_least_one_round() -> None:
    one = fit_admission(FEATURES[:50], np.ones(50, dtype=np.int64), AdmissionSettings(), 0)
    assert one.rounds(words=3, newlines=0, prompt_tokens=9) == 1


def test_size_keeps_to_the_settings() -> None:
    trees, leaves = fitted().size()
    assert trees == 100
    assert 2 <= leaves <= 15


def test_text_rebuilds_the_predictor_and_holds_trees_only() -> None:
    predictor = fitted()
    assert predictor.text.endswith("\nend of trees\n")
    again = AdmissionPredictor(predictor.text)
    row = {"words": 40, "newlines": 3, "prompt_tokens": 77}
    assert again.rounds(**row) == predictor.rounds(**row)


@pytest.mark.parametrize("make", [fitted, fitted_large])
def test_threads_share_a_predictor(make: Callable[[], AdmissionPredictor]) -> None:
    predictor = make()
    expected = predictor.rounds_batch(EXAMPLES.words, EXAMPLES.newlines, EXAMPLES.prompt_tokens)
    wrong: list[int] = []

    def work(offset: int) -> None:
        for i in range(offset, 4000, 4):
            w, n, t = FEATURES[i % len(FEATURES)]
            rounds = predictor.rounds(words=w, newlines=n, prompt_tokens=t)
            if abs(rounds - expected[i % len(expected)]) > 1e-9:
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("make", [fitted, fitted_large])
def test_closed_predictors_say_so(make: Callable[[], AdmissionPredictor]) -> None:
    with make() as predictor:
        predictor.rounds(words=1, newlines=1, prompt_tokens=1)
    with pytest.raises(ValueError, match="closed"):
        predictor.rounds(words=1, newlines=1, prompt_tokens=1)
    with pytest.raises(ValueError, match="closed"):
        predictor.rounds_batch([1], [1], [1])
    predictor.close()


def test_nothing_to_predict_and_nothing_to_train_on() -> None:
    assert fitted().rounds_batch([], [], []).shape == (0,)
    with pytest.raises(TrainingError, match="no finished"):
        fit_admission(np.empty((0, 3)), np.empty(0, dtype=np.int64), AdmissionSettings(), 0)


def test_a_single_threshold_splits_at_its_value() -> None:
    tree = Tree([1], [2.5], [-1], [-2], [10.0, 20.0])
    table = StepTable.build([tree, Tree([], [], [], [], [0.5])])
    assert table is not None
    assert table.thresholds == ([], [2.5], [])
    np.testing.assert_array_equal(table.values.reshape(-1), [10.5, 20.5])
    rows = np.array([[9, 2.5, 9], [9, np.nextafter(2.5, 3), 9], [0, -1e300, 0]])
    np.testing.assert_array_equal(table.cells(rows), [0, 1, 0])


def test_repeated_thresholds_leave_unreachable_leaves_out() -> None:
    # The second split asks again what the first has settled: leaf 2 cannot be reached.
    tree = Tree([0, 0], [5.0, 5.0], [-1, -2], [1, -3], [1.0, 2.0, 3.0])
    table = StepTable.build([tree])
    assert table is not None
    np.testing.assert_array_equal(table.values.reshape(-1), [1.0, 3.0])


def test_feature_columns_must_align() -> None:
    with pytest.raises(ValueError, match="same shape"):
        feature_matrix([1, 2], [1], [1, 2])
