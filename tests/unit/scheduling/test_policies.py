"""Priorities by hand."""

from __future__ import annotations

import math
from itertools import chain, combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dwise_predict.scheduling import (
    Arrived,
    Estimated,
    RequestState,
    ResidencyLimits,
    RoundCost,
    build_scheduler,
    make_policy,
)
from dwise_predict.scheduling.policies import Clock, Dwise, Hrrn, Mlfq, Trail, probe_index

CLOCK = Clock()


def state(
    prompt_blocks: int = 0,
    prefill_left: int = 0,
    rounds: int = 0,
    estimate: float = 0.0,
    estimated_at: int = 0,
    residual: tuple[float, ...] | None = None,
    arrived_prompt_blocks: int = 0,
    first_estimate: float = 0.0,
) -> RequestState:
    return RequestState(
        request_id="r",
        arrival_s=0.0,
        prompt_tokens=0,
        prompt_blocks=prompt_blocks,
        budget_tokens=0,
        prefill_left=prefill_left,
        estimate=estimate,
        rounds=rounds,
        estimated_at=estimated_at,
        residual=residual,
        arrived_prompt_blocks=arrived_prompt_blocks,
        first_estimate=first_estimate,
    )


@pytest.mark.parametrize("name", ["ssjf", "ltr"])
def test_ssjf_and_ltr_rank_by_the_estimate_alone(name: str) -> None:
    policy = make_policy(name)
    assert policy.priority(state(prompt_blocks=9, prefill_left=9, estimate=-1.5), CLOCK) == -1.5
    assert policy.priority(state(rounds=7, estimate=-1.5), CLOCK) == -1.5
    assert not policy.preemptive


def test_fcfs_leaves_it_to_the_arrival() -> None:
    assert make_policy("fcfs").priority(state(estimate=3.0, prefill_left=2), CLOCK) == 0.0


@pytest.mark.parametrize(
    ("tokens", "bucket"), [(0, 0), (32, 0), (32.5, 1), (64, 1), (65, 2), (192, 3), (193, 4)]
)
def test_s3_buckets_end_at_their_edges(tokens: float, bucket: int) -> None:
    assert make_policy("s3").priority(state(estimate=tokens), CLOCK) == bucket


@pytest.mark.parametrize(
    ("attained", "level"),
    # Quanta 4, 8, 16: used up after 4, 12 and 28 blocks; three levels, the last without end.
    [(0, 0), (3, 0), (4, 1), (11, 1), (12, 2), (28, 2), (500, 2)],
)
def test_mlfq_demotes_when_the_quantum_is_used_up(attained: int, level: int) -> None:
    policy = Mlfq(quantum=4, growth=2, levels=3)
    # Prompt blocks and rounds are the same service.
    for prefilled in {0, min(attained, 2), attained}:
        served = state(prompt_blocks=prefilled, rounds=attained - prefilled)
        assert policy.priority(served, CLOCK) == level


@pytest.mark.parametrize(
    ("prompt_blocks", "attained", "level"),
    [(4, 0, 0), (5, 0, 1), (8, 7, 1), (8, 8, 2), (9, 0, 2), (9, 15, 2), (9, 16, 3), (999, 0, 3)],
)
def test_mlfq_skip_join_starts_where_the_prompt_fits(
    prompt_blocks: int, attained: int, level: int
) -> None:
    policy = Mlfq(quantum=4, growth=2, levels=4, skip_join=True)
    left = max(prompt_blocks - attained, 0)
    served = state(prompt_blocks, prefill_left=left, rounds=max(attained - prompt_blocks, 0))
    assert policy.priority(served, CLOCK) == level


def test_mlfq_promotes_after_its_patience() -> None:
    assert Mlfq().patience(state()) is None
    assert Mlfq(promote_after=50).patience(state(prompt_blocks=7)) == 50


def test_trail_ranks_by_remaining_tokens_until_preemption_is_ruled_out() -> None:
    policy = Trail(preemptible=0.8, rounds_per_token=0.5)

    def priority(rounds: int, left: float) -> float:
        told = state(rounds=rounds, estimate=left, estimated_at=rounds, first_estimate=100)
        return policy.priority(told, CLOCK)

    # 100 tokens were predicted at arrival: 50 rounds in all, of which 0.8 are 40. Later estimates
    # change the order, not this limit.
    for left in (5, 60, 400):
        assert priority(0, left) == priority(20, left) == priority(40, left) == left
        assert priority(41, left) == -1
    # Nobody is protected before the first round; a prediction counts as one token at least.
    assert policy.priority(state(estimate=0), CLOCK) == 0
    assert Trail(0.8, 2.0).priority(state(rounds=1, estimate=3), CLOCK) == 3
    assert Trail(0.8, 2.0).priority(state(rounds=2, estimate=3), CLOCK) == -1
    # c = 0: no preemption at all.
    never = state(rounds=1, estimate=9, estimated_at=1, first_estimate=500)
    assert Trail(preemptible=0).priority(never, CLOCK) == -1


def test_schedulers_remember_the_first_estimate() -> None:
    scheduler = build_scheduler(Trail(), "mixed_phase", ResidencyLimits(1, 8))
    scheduler.observe([Arrived("r", 0.0, 8, 1, 64, estimate=40.0), Estimated("r", 90.0)])
    known = scheduler.state("r")
    assert (known.first_estimate, known.estimate) == (40.0, 90.0)


def test_hrrn_is_the_prompt_blocks_done_meanwhile_over_ones_own() -> None:
    policy = Hrrn()
    clock = Clock(round=100, prompt_blocks=50)
    assert policy.priority(state(4, 4, arrived_prompt_blocks=50), clock) == 0
    assert policy.priority(state(4, 4, arrived_prompt_blocks=40), clock) == -2.5
    assert policy.priority(state(20, 20, arrived_prompt_blocks=10), clock) == -2.0
    assert policy.priority(state(0, 0, arrived_prompt_blocks=50), clock) == -math.inf


def test_remaining_work_is_prompt_blocks_plus_rounds() -> None:
    policy = Dwise()
    assert policy.priority(state(5, 3, estimate=7.5), CLOCK) == 10.5
    assert policy.priority(state(5, 0, rounds=4, estimate=7.5), CLOCK) == 3.5
    assert policy.priority(state(5, 0, rounds=4, estimate=6, estimated_at=1), CLOCK) == 3
    assert policy.priority(state(5, 0, rounds=40, estimate=6, estimated_at=1), CLOCK) == 0
    assert policy.patience(state(5, 3, estimate=7.5)) is None
    assert Dwise(aging=2).patience(state(5, 3, estimate=7.5)) == 25
    assert Dwise(aging=2).patience(state(5, 0, rounds=4, estimate=6, estimated_at=1)) == 24


def test_a_residual_curve_replaces_counting_down() -> None:
    policy, curve = Dwise(estimate="residual"), (6.0, 5.5, 5.25, 9.0)
    for rounds, remaining in [(1, 6.0), (2, 5.5), (3, 5.25), (4, 9.0), (5, 9.0), (90, 9.0)]:
        told = state(2, 0, rounds=rounds, estimate=6, estimated_at=1, residual=curve)
        assert policy.priority(told, CLOCK) == remaining
    # Requests without a curve, and the paper's preset, count down.
    assert policy.priority(state(2, 1, estimate=6), CLOCK) == 7
    told = state(2, 0, rounds=4, estimate=6, estimated_at=1, residual=curve)
    assert Dwise().priority(told, CLOCK) == 3


@given(
    prompt_blocks=st.integers(0, 12),
    done=st.integers(0, 12),
    estimate=st.integers(0, 30),
    block_size=st.sampled_from([1, 4, 32]),
    chunk=st.sampled_from([1, 3]),
)
def test_remaining_time_is_the_sum_over_the_blocks_to_come(
    prompt_blocks: int, done: int, estimate: int, block_size: int, chunk: int
) -> None:
    """Chunks read the cached tokens once; denoising rounds attend to the whole prompt."""
    cost = RoundCost(base_ms=11.0, slot_ms=0.5, kv_ms=0.001)
    left = max(prompt_blocks - done, 0)
    policy = Dwise(unit="time", cost=cost, block_size=block_size, prefill_chunk=chunk)
    asked = state(prompt_blocks, left, estimate=float(estimate))
    prefill = sum(
        chunk * cost.slot_ms + cost.kv_ms * chunks * chunk * block_size
        for chunks in range(prompt_blocks - left, prompt_blocks)
    )
    denoising = estimate * (cost.slot_ms + cost.kv_ms * asked.prompt_tokens)
    assert policy.priority(asked, CLOCK) == pytest.approx(prefill + denoising)


def test_what_a_block_costs_is_the_growth_of_a_round() -> None:
    cost = RoundCost(base_ms=10.0, slot_ms=0.4, kv_ms=0.001)
    assert cost.round_ms(2, 3_000) == pytest.approx(10 + 0.8 + 3)
    assert cost.block_ms(500) == pytest.approx(cost.round_ms(3, 3_500) - cost.round_ms(2, 3_000))


def best_over_all_stopping_sets(
    prefill: float, estimate: float, per_round: float, ratios: tuple[float, ...]
) -> float:
    """Least expected work per chance of completion over every set of outcomes to go on with."""
    outcomes = range(len(ratios))
    continued = chain.from_iterable(combinations(outcomes, k) for k in range(1, len(ratios) + 1))
    rest = [max(estimate * ratio - 1, 0) * per_round for ratio in ratios]
    return min(
        (prefill + per_round + sum(rest[i] for i in chosen) / len(ratios))
        / (len(chosen) / len(ratios))
        for chosen in continued
    )


@given(
    prefill=st.floats(0, 50),
    estimate=st.floats(0, 100),
    per_round=st.floats(0.1, 3),
    ratios=st.lists(st.floats(0.05, 10), min_size=1, max_size=6),
)
def test_the_probe_index_is_the_best_over_all_stopping_sets(
    prefill: float, estimate: float, per_round: float, ratios: list[float]
) -> None:
    quantiles = tuple(sorted(ratios))
    assert probe_index(prefill, estimate, per_round, quantiles) == pytest.approx(
        best_over_all_stopping_sets(prefill, estimate, per_round, quantiles)
    )


def test_probing_favours_the_uncertain_until_their_first_round() -> None:
    sure, unsure = Dwise(probe=(1.0,)), Dwise(probe=(0.1, 1.9))
    asked = state(2, 2, estimate=20.0)
    assert sure.priority(asked, CLOCK) == 22
    # One round in two is the last but one: (2 + 1 + 1 / 2) / (1 / 2).
    assert unsure.priority(asked, CLOCK) == pytest.approx(7.0)
    begun = state(2, 0, rounds=1, estimate=20.0)
    assert unsure.priority(begun, CLOCK) == 19
