"""The regressors of Table 9 on requests whose rounds follow from their size."""

from __future__ import annotations

import numpy as np
import pytest

from dwise_predict.experiments.predictors import FITS, OURS, cross_validated
from dwise_predict.predictors.examples import Examples
from dwise_predict.predictors.features import feature_matrix


def examples(n: int = 240) -> Examples:
    rng = np.random.default_rng(0)
    words = rng.integers(1, 200, n)
    return Examples(
        prompt=np.array([f"p{i}" for i in range(n)]),
        category=np.full(n, "any"),
        words=words,
        newlines=rng.integers(0, 3, n),
        prompt_tokens=words + rng.integers(0, 5, n),
        token_bins=np.full(n, None),
        budget_tokens=np.full(n, 256),
        hidden=np.zeros((n, 2), np.float32),
        rounds=words // 3 + rng.integers(1, 4, n),
        finish_reason=np.full(n, "eos"),
    )


@pytest.mark.parametrize("name", FITS)
def test_every_regressor_learns_what_there_is_to_learn(name: str) -> None:
    assert cross_validated(FITS[name], examples(), seed=1) > 0.7


def test_ours_predicts_what_lightgbm_does_one_by_one_too() -> None:
    known = examples()
    features = feature_matrix(known.words, known.newlines, known.prompt_tokens)
    lightgbm, ours = (FITS[name](known, 1) for name in ("LightGBM (100, 15 leaves)", OURS))
    np.testing.assert_allclose(ours(features), lightgbm(features))
    one_by_one = np.concatenate([ours(features[i : i + 1]) for i in range(20)])
    np.testing.assert_array_equal(one_by_one, ours(features)[:20])
