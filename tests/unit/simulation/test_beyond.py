"""Levers: their arithmetic, and what each passes on."""

from __future__ import annotations

import numpy as np
import pytest

from dwise_predict.scheduling import ResidencyLimits, RoundCost
from dwise_predict.simulation.beyond import (
    BETTER_ADMISSION,
    LEVERS,
    ORACLE,
    PAPER,
    Levers,
    Outcome,
    Situation,
    gains,
    serve,
)
from dwise_predict.simulation.predictions import Predictions
from dwise_predict.simulation.residuals import curves
from dwise_predict.simulation.workload import SimulatedWorkload


@pytest.fixture(scope="module")
def situation() -> Situation:
    """60 requests in four slots; every tenth has a prompt that takes longer than all else."""
    rng = np.random.default_rng(3)
    n = 60
    rounds = rng.integers(2, 40, n)
    long = np.arange(n) % 10 == 0
    workload = SimulatedWorkload(
        block_size=16,
        request_ids=tuple(f"r{i:02d}" for i in range(n)),
        categories=tuple("long" if is_long else "short" for is_long in long),
        prompt_tokens=np.where(long, 1600, 40),
        output_tokens=np.full(n, 16),
        budget_tokens=np.full(n, 64),
        rounds_per_block=tuple((int(r),) for r in rounds),
    )
    estimates = rounds * np.exp(rng.normal(0, 0.7, n))
    refined = np.maximum((rounds - 1) * np.exp(rng.normal(0, 0.3, n)), 0.1)
    ratios = np.exp(np.linspace(-1.2, 1.2, 9))
    paper = Predictions(estimates, refined)
    better = Predictions(rounds * np.exp(rng.normal(0, 0.2, n)), refined)
    return Situation(
        workload=workload,
        arrivals=np.zeros(n),
        limits=ResidencyLimits(slots=4, block_size=16),
        cost=RoundCost(5.0, 0.5, 0.01),
        predictors={"paper": paper, BETTER_ADMISSION: better},
        curves={
            kind: curves(refined, ratios, 60, kind == "gittins") for kind in ("mean", "gittins")
        },
        ratios={name: tuple(ratios) for name in ("paper", BETTER_ADMISSION)},
    )


def test_every_lever_serves_all_requests(situation: Situation) -> None:
    outcomes = {name: serve(situation, levers) for name, levers in LEVERS.items()}
    for outcome in outcomes.values():
        assert 0 < outcome.mean_s <= outcome.worst_p99_s
    # A lever that is not passed on would leave the preset's outcome.
    for name in ("unit: time", "probe", "lean 8", "prefill chunk 4", "admission features"):
        assert outcomes[name] != outcomes[PAPER], name
    assert outcomes[ORACLE].mean_s < outcomes[PAPER].mean_s


def test_chunks_need_time_to_be_ranked_right(situation: Situation) -> None:
    """A chunk counts as one round but takes as long as its blocks."""
    by_rounds = serve(situation, Levers(predictor="oracle", chunk=8))
    by_time = serve(situation, Levers(predictor="oracle", chunk=8, time=True))
    assert by_time.mean_s < by_rounds.mean_s


def test_gains_by_hand() -> None:
    outcomes = {
        PAPER: [Outcome(10.0, 20.0, 40.0), Outcome(12.0, 20.0, 40.0)],
        ORACLE: [Outcome(6.0, 20.0, 40.0), Outcome(8.0, 20.0, 40.0)],
        "half": [Outcome(8.0, 10.0, 44.0), Outcome(10.0, 10.0, 44.0)],
        "mixed": [Outcome(10.0, 20.0, 40.0), Outcome(8.0, 20.0, 40.0)],
    }
    found = {gain.name: gain for gain in gains(outcomes)}
    assert found[PAPER].closed == 0 and found[ORACLE].closed == 1
    half = found["half"]
    assert (half.closed, half.closed_low, half.closed_high) == (0.5, 0.5, 0.5)
    assert half.mean_s == 9.0
    assert half.p99_ratio == 0.5 and half.worst_p99_ratio == pytest.approx(1.1)
    mixed = found["mixed"]
    assert mixed.closed == 0.5 and mixed.closed_low == 0.0 and mixed.closed_high == 1.0
