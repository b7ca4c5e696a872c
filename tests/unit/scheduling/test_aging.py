"""The bound on waiting: ``dwise`` with ``aging``."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from dwise_predict.scheduling import (
    Arrived,
    Event,
    Finished,
    Plan,
    ResidencyLimits,
    build_scheduler,
    make_policy,
)
from tests.scheduling import BLOCK, Job, serve, workloads


def flood(rounds: int) -> list[Job]:
    """One long request, and from then on a short one in every second round: one slot is full."""
    short = [Job(f"s{at:03}", 0, 2, arrival=at) for at in range(0, rounds, 2)]
    return [Job("long", 4, 16), *short]


def test_without_aging_a_stream_of_short_requests_starves_a_long_one() -> None:
    limits = ResidencyLimits(slots=1, block_size=BLOCK)
    run = serve(
        build_scheduler(make_policy("dwise"), "mixed_phase", limits), flood(rounds=200), limits
    )
    assert run.finished["long"] == 220


def test_aging_lets_it_through_and_then_serves_the_others_in_turn() -> None:
    limits = ResidencyLimits(slots=1, block_size=BLOCK)
    scheduler = build_scheduler(make_policy("dwise", {"aging": 3.0}), "mixed_phase", limits)
    run = serve(scheduler, flood(rounds=200), limits)
    # Overdue after 3 * 20 rounds, when at most one of the short ones is overdue before it.
    assert 60 + 20 <= run.finished["long"] <= 60 + 20 + 2
    assert scheduler.counters.overdue >= 1


@given(
    jobs=workloads(),
    slots=st.integers(1, 3),
    aging=st.sampled_from([0.5, 1.0, 1.5, 3.0]),
    hysteresis=st.sampled_from([0.0, 0.5]),
)
def test_the_bound_holds(jobs: list[Job], slots: int, aging: float, hysteresis: float) -> None:
    """After its patience only requests that became overdue before it can keep a request waiting.

    Patience counts rounds that ran, so does ``finished``; estimates here are true.
    """
    limits = ResidencyLimits(slots, BLOCK, multiplier=len(jobs))
    jobs = [Job(job.request_id, job.prefill, job.rounds, job.arrival) for job in jobs]
    scheduler = build_scheduler(
        make_policy("dwise", {"aging": aging}), "mixed_phase", limits, hysteresis
    )
    arrived: dict[str, int] = {}

    def check(events: Sequence[Event], plan: Plan) -> None:
        for event in events:
            if isinstance(event, Arrived):
                arrived[event.request_id] = scheduler.state(event.request_id).arrived_round

    run = serve(scheduler, jobs, limits, check=check)
    deadline = {job.request_id: arrived[job.request_id] + aging * job.work for job in jobs}
    for job in jobs:
        order = deadline[job.request_id], job.arrival, job.request_id
        before = sum(
            other.work
            for other in jobs
            if (deadline[other.request_id], other.arrival, other.request_id) < order
        )
        bound = math.ceil(deadline[job.request_id]) + job.work + before // slots
        assert run.finished[job.request_id] <= bound


def test_a_refinement_moves_the_deadline() -> None:
    limits = ResidencyLimits(slots=1, block_size=BLOCK)
    scheduler = build_scheduler(make_policy("dwise", {"aging": 2.0}), "mixed_phase", limits)
    told = Job("a", 1, 12, estimate=3.0, refined=9.0)
    seen: list[tuple[float, bool]] = []

    def check(events: Sequence[Event], plan: Plan) -> None:
        if Finished("a") not in events:
            state = scheduler.state("a")
            seen.append((state.deadline, state.overdue))

    serve(scheduler, [told], limits, check=check)
    assert seen[0] == (2 * (1 + 3), False)
    # One prompt block and one denoising round later: 1 prompt block + 1 round done + 9 to go.
    assert seen[2] == (2 * (1 + 1 + 9), False)
    assert not any(overdue for _, overdue in seen)


def test_nobody_takes_the_kv_that_an_overdue_request_waits_for() -> None:
    """Three slots and KV for one big reservation or four small ones, of which more keep coming."""
    limits = ResidencyLimits(slots=3, block_size=BLOCK, kv_tokens=80)  # 18 blocks
    big = Job("big", 9, 2, arrival=1)  # 16 blocks
    small = [Job(f"s{at:02}", 0, 4, arrival=at, budget_tokens=4) for at in range(60)]

    def served(options: dict[str, object]) -> int:
        scheduler = build_scheduler(make_policy("dwise", options), "mixed_phase", limits)
        return serve(scheduler, [big, *small], limits).finished["big"]

    assert served({}) > 60
    # Overdue in round 12, after the nine small ones that came until round 8: 36 rounds of work.
    assert served({"aging": 1.0}) <= 12 + 11 + 36 // 3


def test_hysteresis_protects_nobody_from_overdue_requests() -> None:
    """Two slots, four residents: a's place comes free when x and y are overdue, a longer so."""
    limits = ResidencyLimits(slots=2, block_size=BLOCK, multiplier=2)
    policy = make_policy("dwise", {"aging": 0.5})
    scheduler = build_scheduler(policy, "mixed_phase", limits, hysteresis=0.6)
    long = [Job("p", 0, 30), Job("q", 0, 30)]
    short = [Job("x", 0, 10, arrival=1), Job("y", 0, 10, arrival=1)]
    a = Job("a", 0, 2, arrival=2)
    run = serve(scheduler, [*long, *short, a], limits, aborts={"p": 7})
    assert run.finished["a"] == 9
    assert run.finished["x"] == 11
