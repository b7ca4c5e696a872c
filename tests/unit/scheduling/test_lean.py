"""Leaving slots empty: the rule against the mean completion time it is derived from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dwise_predict.scheduling import LeanFill, Plan, ResidencyLimits, RoundCost, build_scheduler
from dwise_predict.scheduling.policies import Dwise
from dwise_predict.scheduling.state import Arrived, RequestState, RoundProcessed


def state(name: str, processed: int = 0) -> RequestState:
    return RequestState(
        request_id=name,
        arrival_s=0.0,
        prompt_tokens=640,
        prompt_blocks=processed,
        budget_tokens=8,
        prefill_left=0,
        estimate=5.0,
    )


def mean_completion(m: int, g: int, rounds: int, base: float, block: float) -> float:
    """Requests of equal work, g at a time, each group served to its end before the next."""
    now = total = 0.0
    left = m
    while left:
        group = min(g, left)
        now += rounds * (base + group * block)
        total += group * now
        left -= group
    return total / m


@given(
    g=st.integers(2, 12),
    groups=st.integers(1, 6),
    base=st.floats(1.0, 50.0),
    block=st.floats(0.01, 20.0),
)
def test_one_more_slot_pays_as_the_rule_says(
    g: int, groups: int, base: float, block: float
) -> None:
    """With whole groups: fewer slots than the rule allows never serve better by going lower."""
    m = g * groups * (g - 1)  # divisible by g and by g - 1
    lean = LeanFill(RoundCost(base, block, 0.0), 16, 1.0)
    fill = lean.slots([state(f"r{i}") for i in range(g)], m)
    better_with_g = mean_completion(m, g, 7, base, block) <= mean_completion(
        m, g - 1, 7, base, block
    )
    # The derivative changes sign at g² c = m base; the difference between g - 1 and g does at
    # g (g - 1) c = m base, so both agree except between the two.
    if g * (g - 1) * block > m * base:
        assert fill < g and not better_with_g
    elif g * g * block <= m * base:
        assert fill == g and better_with_g


def test_cheap_blocks_fill_all_slots_and_dear_ones_do_not() -> None:
    lean = LeanFill(RoundCost(10.0, 0.4, 0.001), 32, 1.0)
    assert lean.slots([state(f"r{i}") for i in range(128)], 4096) == 128
    # Behind 320 blocks of 32 tokens a block takes 10.6 ms; 100 requests are left:
    # g * g * 10.6 <= 100 * 10 holds up to 9.
    assert lean.slots([state(f"r{i}", 320) for i in range(128)], 100) == 9


def test_runs_at_least_one() -> None:
    lean = LeanFill(RoundCost(0.1, 100.0, 0.0), 16, 0.01)
    assert lean.slots([state("r0"), state("r1")], 2) == 1


def test_requests_left_out_wait_as_paused_residents_and_finish() -> None:
    lean = LeanFill(RoundCost(1.0, 10.0, 0.0), 16, 1.0)
    limits = ResidencyLimits(slots=4, block_size=16)
    scheduler = build_scheduler(Dwise(), "mixed_phase", limits, lean=lean)
    scheduler.observe([Arrived(f"r{i}", 0.0, 16, 1, 16, float(i)) for i in range(4)])
    plan = scheduler.plan(0.0)
    assert plan.admit == ("r0", "r1", "r2", "r3")
    assert plan.run == ("r0",)
    assert plan.pause == ()  # the others never ran
    scheduler.observe([RoundProcessed(["r0"])])
    assert scheduler.plan(1.0) == Plan(run=("r0",))
    assert scheduler.counters.preemptions == 0


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf")])
def test_the_factor_is_positive(factor: float) -> None:
    with pytest.raises(ValueError, match="lean must be a positive number"):
        LeanFill(RoundCost(1.0, 1.0, 1.0), 16, factor)
