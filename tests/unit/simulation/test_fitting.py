from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from dwise_predict.errors import SimulationError
from dwise_predict.simulation.fitting import fit_round_cost, non_negative_least_squares


def rounds(noise: float = 0.0, n: int = 200) -> pa.Table:
    rng = np.random.default_rng(0)
    slots, kv = rng.integers(1, 129, n), rng.integers(0, 500_000, n)
    wall = (10 + 0.41 * slots + 0.00096 * kv) * np.exp(noise * rng.normal(size=n))
    return pa.table({"wall_ms": wall, "slots": slots, "kv_tokens": kv})


def test_finds_the_cost_that_made_the_rounds() -> None:
    fit = fit_round_cost(rounds())
    assert (fit.cost.base_ms, fit.cost.slot_ms, fit.cost.kv_ms) == pytest.approx(
        (10, 0.41, 0.00096)
    )
    assert fit.cost.resident_ms == 0
    assert fit.r_squared == pytest.approx(1)
    assert fit.median_error == pytest.approx(0, abs=1e-9)
    assert fit.rounds == 200
    assert fit.good


def test_says_how_well_it_fits() -> None:
    fit = fit_round_cost(rounds(noise=0.1, n=4000))
    assert fit.cost.slot_ms == pytest.approx(0.41, rel=0.1)
    assert fit.median_error == pytest.approx(0.067, abs=0.01)
    assert fit.p90_error == pytest.approx(0.164, abs=0.02)
    assert 0.95 < fit.r_squared < 0.99


def test_rounds_of_a_busy_machine_are_no_good_fit() -> None:
    fit = fit_round_cost(rounds(noise=1.0, n=1000))
    assert fit.r_squared < 0.9
    assert not fit.good


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("wall_ms", np.nan),
        ("wall_ms", np.inf),
        ("wall_ms", 1e300),
        ("slots", -1),
        ("kv_tokens", -5),
        ("kv_tokens", 2**62),
    ],
)
def test_rounds_that_cannot_be_are_refused(column: str, value: float) -> None:
    table = rounds().to_pydict()
    table[column][7] = value
    with pytest.raises(SimulationError, match=r"cannot be, so the profile is damaged.* --cost"):
        fit_round_cost(pa.table(table))


def test_total_time_is_met() -> None:
    table = rounds(noise=0.05)
    cost = fit_round_cost(table).cost
    assert cost.base_ms > 0
    fitted = [
        cost.round_ms(s, k)
        for s, k in zip(table["slots"].to_pylist(), table["kv_tokens"].to_pylist(), strict=True)
    ]
    assert sum(fitted) == pytest.approx(sum(table["wall_ms"].to_pylist()))


def test_no_part_is_negative() -> None:
    slots = np.arange(1, 51)
    falling = pa.table({"wall_ms": 100.0 - slots, "slots": slots, "kv_tokens": slots * 0})
    cost = fit_round_cost(falling).cost
    assert cost.slot_ms == 0 == cost.kv_ms
    assert cost.base_ms == pytest.approx(74.5)


@pytest.mark.parametrize(
    ("wall", "message"),
    [
        ([1.0, 2.0, 3.0], "at least 10 rounds, the profile has 3"),
        ([0.0] * 20, "all took the same time"),
        ([0.0, *([1.0] * 20)], "all took the same time, or none"),
    ],
)
def test_rounds_that_tell_nothing_are_refused(wall: list[float], message: str) -> None:
    n = len(wall)
    table = pa.table({"wall_ms": wall, "slots": list(range(n)), "kv_tokens": [0] * n})
    with pytest.raises(SimulationError, match=message):
        fit_round_cost(table)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(5, 40))
def test_agrees_with_scipy(seed: int, k: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    terms, target = rng.normal(size=(n, k)), rng.normal(size=n)
    ours = non_negative_least_squares(terms, target)
    expected, residual = nnls(terms, target)
    assert ours == pytest.approx(expected, abs=1e-8)
    assert float(np.linalg.norm(terms @ ours - target)) == pytest.approx(residual)
