from __future__ import annotations

import threading

import numpy as np
import pytest

from dwise_predict.predictors.admission import AdmissionPredictor, fit_admission
from dwise_predict.predictors.errors import TrainingError
from dwise_predict.predictors.features import feature_matrix
from dwise_predict.recipe import AdmissionSettings
from tests.synthetic import synthetic_examples

EXAMPLES = synthetic_examples(400, seed=3, hidden=4)
FEATURES = feature_matrix(EXAMPLES.words, EXAMPLES.newlines, EXAMPLES.prompt_tokens)


def fitted(seed: int = 0) -> AdmissionPredictor:
    return fit_admission(FEATURES, EXAMPLES.rounds, AdmissionSettings(), seed)


def test_single_row_path_equals_the_batch_path() -> None:
    predictor = fitted()
    batch = predictor.rounds_batch(EXAMPLES.words, EXAMPLES.newlines, EXAMPLES.prompt_tokens)
    single = [
        predictor.rounds(words=w, newlines=n, prompt_tokens=t) for w, n, t in FEATURES.tolist()
    ]
    np.testing.assert_allclose(single, batch, rtol=1e-14)
    assert len(np.unique(batch)) > 50


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


def test_threads_share_a_predictor() -> None:
    predictor = fitted()
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


def test_closed_predictors_say_so() -> None:
    with fitted() as predictor:
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


def test_feature_columns_must_align() -> None:
    with pytest.raises(ValueError, match="same shape"):
        feature_matrix([1, 2], [1], [1, 2])
