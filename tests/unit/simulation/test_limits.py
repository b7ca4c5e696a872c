from __future__ import annotations

import math

import pytest

from dwise_predict.errors import SimulationError
from dwise_predict.scheduling import RoundCost
from dwise_predict.simulation.limits import (
    MAX_ARRIVAL_S,
    MAX_BLOCKS,
    MAX_COST_MS,
    MAX_ROUNDS,
    MIN_ROUND_MS,
    check_arrivals,
    check_cost,
    check_size,
)


def test_what_lies_on_a_limit_is_simulated() -> None:
    check_cost(RoundCost(MIN_ROUND_MS, 0, MAX_COST_MS, MAX_COST_MS))
    check_cost(RoundCost(0, MIN_ROUND_MS, 0))
    check_arrivals(MAX_ARRIVAL_S)
    check_size(["a"], [MAX_ROUNDS], slots=1)
    check_size(["a"] * 20, [MAX_BLOCKS // 20] * 20, slots=10)


@pytest.mark.parametrize(
    "cost",
    [
        RoundCost(1e-320, 0, 0),
        RoundCost(0, 0, 1),
        RoundCost(1e308, 1, 1),
        RoundCost(1, 1, 0, 1.001e6),
    ],
)
def test_costs_without_a_sensible_time_are_refused(cost: RoundCost) -> None:
    with pytest.raises(SimulationError, match="of a round's cost"):
        check_cost(cost)


@pytest.mark.parametrize("last_s", [MAX_ARRIVAL_S * 1.001, math.inf, math.nan])
def test_arrivals_that_never_come_are_refused(last_s: float) -> None:
    with pytest.raises(SimulationError, match="the last request arrives"):
        check_arrivals(last_s)


def test_too_much_work_is_refused() -> None:
    with pytest.raises(SimulationError, match="request 'b' needs 20,000,001 rounds"):
        check_size(["a", "b"], [1, MAX_ROUNDS + 1], slots=64)
    with pytest.raises(SimulationError, match="200,000,020 blocks to run, 3,125,001 rounds"):
        check_size(["a"] * 20, [MAX_BLOCKS // 20 + 1] * 20, slots=64)
    with pytest.raises(SimulationError, match="20,000,001 blocks to run, 20,000,001 rounds"):
        check_size(["a", "b"], [MAX_ROUNDS, 1], slots=1)
