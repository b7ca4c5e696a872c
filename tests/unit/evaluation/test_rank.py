from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata, spearmanr

from dwise_predict.rank import (
    mean_absolute_error,
    median_ratio,
    ranks,
    spearman,
    spearman_within,
)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=30))
def test_ranks_agree_with_scipy(values: list[int]) -> None:
    np.testing.assert_array_equal(ranks(np.array(values)), rankdata(values))


@given(st.integers(0, 2**32 - 1))
def test_spearman_agrees_with_scipy_on_ties(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 5, 20), rng.integers(0, 5, 20)
    if np.ptp(a) and np.ptp(b):
        assert spearman(a, b) == pytest.approx(spearmanr(a, b)[0])


def test_spearman_is_undefined_for_constants_and_single_requests() -> None:
    assert spearman(np.array([3.0, 3.0]), np.array([1, 2])) is None
    assert spearman(np.array([1.0, 2.0]), np.array([5, 5])) is None
    assert spearman(np.array([1.0]), np.array([1])) is None


def test_within_category_ignores_differences_between_categories() -> None:
    category = np.array(["a", "a", "a", "b", "b", "b"])
    predicted, actual = np.array([3.0, 2, 1, 30, 20, 10]), np.array([1, 2, 3, 10, 20, 30])
    within = spearman_within(predicted, actual, category)
    assert within.mean == pytest.approx(-1)
    assert spearman(predicted, actual) > 0.5
    assert within.undefined == 0


def test_within_category_leaves_undefined_ones_out_and_counts_them() -> None:
    category = np.array(["a", "a", "b", "c", "c"])
    within = spearman_within(np.array([1.0, 2, 9, 5, 5]), np.array([1, 2, 9, 1, 2]), category)
    assert within.by_category == {"a": pytest.approx(1), "b": None, "c": None}
    assert within.mean == pytest.approx(1)
    assert within.undefined == 2
    assert spearman_within(np.array([1.0]), np.array([1]), np.array(["a"])).mean is None


def test_scale_metrics_by_hand() -> None:
    predicted, actual = np.array([2.0, 6.0, 30.0]), np.array([4, 6, 10])
    assert median_ratio(predicted, actual) == 1
    assert mean_absolute_error(predicted, actual) == pytest.approx(22 / 3)
