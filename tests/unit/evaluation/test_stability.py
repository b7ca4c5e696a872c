"""Agreement between servings against counting by hand and scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dwise_predict.evaluation.stability import agreement


def test_by_hand_aborted_requests_left_out() -> None:
    a, b = np.array([3, 5, 9, 40]), np.array([3, 6, 7, 1])
    found = agreement(a, b, np.array([True, True, True, False]))
    assert (found.requests, found.left_out) == (3, 1)
    assert found.identical == pytest.approx(1 / 3)
    assert found.mean_difference == pytest.approx((0 + 1 + 2) / 3)
    assert found.spearman == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(5))
def test_random_rounds_against_independent_counts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a = rng.integers(1, 60, size=80)
    b = np.maximum(1, a + rng.integers(-2, 3, size=80))
    ended = rng.random(80) < 0.9
    found = agreement(a, b, ended)
    pairs = [(int(x), int(y)) for x, y, e in zip(a, b, ended, strict=True) if e]
    assert found.identical == pytest.approx(sum(x == y for x, y in pairs) / len(pairs))
    assert found.mean_difference == pytest.approx(sum(abs(x - y) for x, y in pairs) / len(pairs))
    assert found.spearman == pytest.approx(stats.spearmanr(*zip(*pairs, strict=True)).statistic)


def test_nothing_left_is_undefined() -> None:
    found = agreement(np.array([3]), np.array([4]), np.array([False]))
    assert found.identical is found.spearman is found.mean_difference is None


def test_constant_rounds_are_identical_and_have_no_rank() -> None:
    found = agreement(np.full(4, 7), np.full(4, 7), np.ones(4, bool))
    assert (found.identical, found.spearman) == (1.0, None)
