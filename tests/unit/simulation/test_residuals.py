"""Mean residual and Gittins index against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dwise_predict.simulation.residuals import curves, gittins_indices, mean_residuals

SAMPLES = st.lists(st.floats(0.5, 30.0), min_size=1, max_size=8)


def brute_mean(samples: list[float], elapsed: int) -> float:
    left = [x - elapsed for x in samples if x > elapsed]
    return sum(left) / len(left) if left else 1.0


def brute_gittins(samples: list[float], elapsed: int) -> float:
    left = [x - elapsed for x in samples if x > elapsed]
    if not left:
        return 1.0
    # The best span ends where a sample ends.
    return min(
        sum(min(x, span) for x in left) / sum(x <= span for x in left) for span in sorted(left)
    )


@given(samples=SAMPLES)
def test_against_brute_force(samples: list[float]) -> None:
    x = np.array(samples)
    for elapsed, (mean, gittins) in enumerate(
        zip(mean_residuals(x, 32), gittins_indices(x, 32), strict=True)
    ):
        assert mean == pytest.approx(brute_mean(samples, elapsed))
        assert gittins == pytest.approx(brute_gittins(samples, elapsed))
        assert gittins <= mean + 1e-9


def test_gittins_bets_on_the_short_outcome() -> None:
    """Two rounds or a hundred: after both it is worth trying two rounds first."""
    samples = np.array([2.0, 100.0])
    assert mean_residuals(samples, 0)[0] == 51
    assert gittins_indices(samples, 0)[0] == (2 + 2) / 1
    assert gittins_indices(samples, 2)[2] == 98  # it was the long one


def test_equal_estimates_share_a_curve() -> None:
    first, second, third = curves(np.array([10.0, 10.001, 20.0]), np.array([0.5, 1.5]), 5, False)
    assert first is second
    assert first[0] == pytest.approx(10.0)
    assert third[0] == pytest.approx(20.0)
