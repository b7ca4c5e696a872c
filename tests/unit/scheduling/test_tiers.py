"""Tiers: all of a smaller one go first; within a tier the policy decides."""

from __future__ import annotations

import pytest

from dwise_predict.scheduling import (
    Arrived,
    Finished,
    FormerName,
    ResidencyLimits,
    RoundProcessed,
    RoundScheduler,
    build_scheduler,
    make_policy,
)


def scheduler(slots: int, former: FormerName = "mixed_phase", aging: float = 9.0) -> RoundScheduler:
    limits = ResidencyLimits(slots, block_size=1)
    return build_scheduler(make_policy("dwise", {"aging": aging}), former, limits)


def arrived(request_id: str, rounds: float, tier: int, at: float = 0.0) -> Arrived:
    return Arrived(request_id, at, 0, 0, 100, estimate=rounds, tier=tier)


@pytest.mark.parametrize("former", ["mixed_phase", "prefill_first"])
def test_a_tier_goes_before_remaining_work(former: FormerName) -> None:
    core = scheduler(2, former)
    core.observe(
        [
            arrived("short", 2, tier=1),
            arrived("urgent", 50, tier=-3),
            arrived("long", 40, tier=0),
            arrived("middle", 20, tier=0),
        ]
    )
    assert set(core.plan(0).run) == {"urgent", "middle"}


def test_a_smaller_tier_displaces_a_running_request() -> None:
    core = scheduler(1)
    core.observe([arrived("short", 2, tier=1)])
    assert core.plan(0).run == ("short",)
    core.observe([RoundProcessed(denoised=["short"]), arrived("urgent", 50, tier=0, at=1.0)])
    plan = core.plan(0)
    assert plan.run == ("urgent",) and plan.pause == ("short",)


def test_the_bound_on_waiting_holds_within_a_tier() -> None:
    core = scheduler(1, aging=1.0)
    core.observe([arrived("old", 3, tier=1), arrived("urgent", 30, tier=0)])
    for _ in range(5):
        assert core.plan(0).run == ("urgent",)
        core.observe([RoundProcessed(denoised=["urgent"])])
    assert core.counters.overdue == 1
    core.observe([arrived("new", 1, tier=1), arrived("other", 1, tier=0)])
    seen: list[str] = []
    while len(seen) < 3:
        (running,) = core.plan(0).run
        if running not in seen:
            seen.append(running)
        core.observe([RoundProcessed(denoised=[running])])
        if core.state(running).rounds >= {"urgent": 30, "other": 1, "old": 3, "new": 1}[running]:
            core.observe([Finished(running)])
    assert seen == ["other", "urgent", "old"]
