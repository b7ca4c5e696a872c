from __future__ import annotations

import numpy as np
import pytest

from dwise_predict.simulation.arrivals import Pattern, arrival_times


def test_burst_is_all_at_once() -> None:
    assert arrival_times("burst", 5, None, 0).tolist() == [0.0] * 5


def test_burst_poisson_has_half_at_once() -> None:
    times = arrival_times("burst+poisson", 2001, 4.0, 0)
    assert (times[:1000] == 0).all() and times[1000] > 0
    assert (np.diff(times) >= 0).all()
    assert 1001 / times[-1] == pytest.approx(4.0, rel=0.15)


def test_gaps_are_exponential() -> None:
    gaps = np.diff(arrival_times("poisson", 20_000, 8.0, 1), prepend=0.0)
    assert gaps.mean() == pytest.approx(1 / 8, rel=0.03)
    assert gaps.std() == pytest.approx(1 / 8, rel=0.05)


def test_seeds_decide() -> None:
    once, again, other = (arrival_times("poisson", 50, 1.0, seed) for seed in (3, 3, 4))
    assert once.tolist() == again.tolist() != other.tolist()


@pytest.mark.parametrize("pattern", ["poisson", "burst+poisson"])
@pytest.mark.parametrize("rate", [None, 0.0, -1.0])
def test_a_rate_is_needed(pattern: Pattern, rate: float | None) -> None:
    with pytest.raises(ValueError, match="needs a positive rate"):
        arrival_times(pattern, 5, rate, 0)
