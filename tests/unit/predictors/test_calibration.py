from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dwise_predict.predictors.calibration import CalibrationMap, fit_calibration, median_isotonic


def apply(calibration: CalibrationMap, values: np.ndarray) -> np.ndarray:
    return calibration(torch.from_numpy(values)).numpy()


def skewed(seed: int, n: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """Exact means of right-skewed durations: what a perfect network would predict."""
    rng = np.random.default_rng(seed)
    median = np.exp(rng.normal(3, 0.8, n))
    spread = 0.7
    actual = np.maximum(1, np.rint(median * np.exp(spread * rng.normal(size=n)))).astype(np.int64)
    return 1 + median * np.exp(spread**2 / 2), actual


@pytest.mark.parametrize("seed", range(5))
def test_map_brings_the_median_ratio_to_one_and_lowers_absolute_error(seed: int) -> None:
    expected, actual = skewed(seed)
    unseen, outcome = skewed(seed + 100)
    mapped = apply(fit_calibration(expected, actual), unseen)
    assert np.median(unseen / outcome) > 1.15
    assert np.median(mapped / outcome) == pytest.approx(1, abs=0.06)
    assert np.abs(mapped - outcome).mean() <= np.abs(unseen - outcome).mean()


@given(st.integers(0, 10_000), st.integers(1, 200))
def test_map_is_strictly_increasing_whatever_it_was_fitted_on(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    calibration = fit_calibration(1 + rng.exponential(20, n), rng.integers(1, 280, n))
    inputs = np.sort(np.concatenate([1 + rng.exponential(40, 50), np.linspace(1, 300, 50)]))
    inputs = np.unique(inputs)
    assert (np.diff(apply(calibration, inputs)) > 0).all()


def test_one_expected_round_stays_one() -> None:
    expected, actual = skewed(0)
    assert apply(fit_calibration(expected, actual), np.array([1.0]))[0] == 1


def test_map_goes_on_proportionally_beyond_its_last_knot() -> None:
    calibration = CalibrationMap((1.0, 10.0), (1.0, 8.0))
    np.testing.assert_allclose(apply(calibration, np.array([10.0, 20.0, 50.0])), [8, 16, 40])


def test_constant_data_give_a_map_that_says_the_constant() -> None:
    calibration = fit_calibration(np.full(40, 12.5), np.full(40, 10))
    assert apply(calibration, np.array([12.5]))[0] == pytest.approx(10)


def test_expectations_that_hardly_differ_share_a_knot() -> None:
    expected = np.repeat([20.0, 20.0 + 1e-9, 30.0], 16)
    calibration = fit_calibration(expected, np.repeat([5, 9, 12], 16))
    assert len(calibration.raw) == 3
    inputs = np.array([1, 19.9, 20, 20.1, 30, 40], dtype=np.float32)
    mapped = apply(calibration, inputs)
    assert np.isfinite(mapped).all() and (np.diff(mapped) > 0).all()


def test_median_isotonic_pools_adjacent_violators() -> None:
    pools = [np.array([1, 1]), np.array([9, 9, 2]), np.array([3, 3]), np.array([20])]
    blocks = median_isotonic(pools)
    assert [sorted(block.tolist()) for block in blocks] == [[1, 1], [2, 3, 3, 9, 9], [20]]


@given(st.lists(st.lists(st.integers(1, 50), min_size=1, max_size=4), min_size=1, max_size=12))
def test_median_isotonic_minimises_absolute_error(pools: list[list[int]]) -> None:
    """Against every increasing step function, by dynamic programming over observed values."""
    blocks = median_isotonic([np.array(pool) for pool in pools])
    error = sum(np.abs(block - np.median(block)).sum() for block in blocks)
    levels = sorted({value for pool in pools for value in pool})
    best = np.zeros(len(levels))
    for pool in pools:
        cost = np.array([sum(abs(value - level) for value in pool) for level in levels])
        best = np.minimum.accumulate(best) + cost
    assert error == pytest.approx(best.min())
    assert sum(len(block) for block in blocks) == sum(len(pool) for pool in pools)


@pytest.mark.parametrize(
    ("raw", "calibrated"),
    [
        ((1.0,), (1.0,)),
        ((1.0, 1.0), (1.0, 2.0)),
        ((1.0, 2.0), (1.0, 1.0)),
        ((2.0, 3.0), (1.0, 2.0)),
        ((1.0, float("nan")), (1.0, 2.0)),
        ((1.0, 2.0), (1.0, float("inf"))),
        ((1.0, 2.0, 3.0), (1.0, 2.0)),
        ((1.0, 1.0 + 1e-9), (1.0, 2.0)),
        ((1.0, 2.0), (1.0, 1e308)),
    ],
)
def test_knots_must_increase_from_one(raw: tuple, calibrated: tuple) -> None:
    with pytest.raises(ValueError, match="knot"):
        CalibrationMap(raw, calibrated)
