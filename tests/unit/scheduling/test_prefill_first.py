"""SGLang's former beyond first come, first served (see test_fcfs.py)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dwise_predict.scheduling import ResidencyLimits, build_scheduler, fcfs_scheduler, make_policy
from tests.scheduling import BLOCK, Job, Run, serve, workloads

THREE = ResidencyLimits(slots=3, block_size=BLOCK, multiplier=1)


def runs(run: Run) -> list[str]:
    return ["".join(sorted(plan.run)) for plan in run.plans]


def fcfs(jobs: list[Job], held_rows: bool) -> Run:
    return serve(
        build_scheduler(make_policy("fcfs"), "prefill_first", THREE, held_rows=held_rows),
        jobs,
        THREE,
    )


def test_held_rows_starve_a_short_prompt_by_the_hand_worked_schedule() -> None:
    """A's blocks take 2 rounds, B's 3; C has no whole prompt block and comes in round 2.

    Of three rows A and B hold one each in the middle of a block. C may start only when the round
    has fewer requests (2) than rows are free, that is when A and B have both just ended a block:
    after 6 rounds of denoising.
    """
    a = Job("A", 1, 8, block_rounds=2)
    b = Job("B", 1, 9, block_rounds=3)
    c = Job("C", 0, 2, arrival=2)
    stock = fcfs([a, b, c], held_rows=True)
    assert runs(stock) == ["AB"] * 7 + ["ABC"] * 2 + ["B"]
    assert stock.finished == {"A": 9, "B": 10, "C": 9}
    mended = fcfs([a, b, c], held_rows=False)
    assert runs(mended) == ["AB"] * 2 + ["ABC"] * 2 + ["AB"] * 5 + ["B"]
    assert mended.finished == {"A": 9, "B": 10, "C": 4}


def test_a_short_prompt_that_comes_in_time_is_not_starved() -> None:
    """Between prefill and the first denoising round no row is held."""
    jobs = [Job("A", 1, 8, block_rounds=2), Job("B", 1, 9), Job("C", 0, 2)]
    assert runs(fcfs(jobs, held_rows=True)) == ["AB", "ABC", "ABC", *["AB"] * 6, "B"]


@given(
    jobs=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 6)), min_size=1, max_size=8),
)
def test_held_rows_concern_short_prompts_only(jobs: list[tuple[int, int]]) -> None:
    long = [Job(f"r{i}", prefill, rounds) for i, (prefill, rounds) in enumerate(jobs)]
    assert fcfs(long, held_rows=True) == fcfs(long, held_rows=False)


@given(workloads(), st.integers(1, 4))
def test_nobody_is_displaced_with_as_many_residents_as_slots(jobs: list[Job], slots: int) -> None:
    scheduler = fcfs_scheduler(slots)
    serve(scheduler, jobs, ResidencyLimits(slots, BLOCK, multiplier=1))
    assert scheduler.counters.preemptions == 0


def test_displaced_residents_are_counted() -> None:
    """One slot, quanta 1, 2, 4: B comes fresh to level 0 when A is in the middle of level 1."""
    limits = ResidencyLimits(slots=1, block_size=BLOCK, multiplier=2)
    policy = make_policy("mlfq", {"quantum": 1})
    scheduler = build_scheduler(policy, "prefill_first", limits)
    run = serve(scheduler, [Job("A", 0, 4), Job("B", 0, 2, arrival=2)], limits)
    assert runs(run) == ["A", "A", "B", "A", "B", "A"]
    assert scheduler.counters.preemptions == 3


def test_a_preemptive_policy_keeps_more_residents_and_every_prompt_stalls_them() -> None:
    """One slot, two residents: the prompt of each newcomer runs first, whoever is shorter."""
    limits = ResidencyLimits(slots=1, block_size=BLOCK, multiplier=2)
    scheduler = build_scheduler(make_policy("trail"), "prefill_first", limits)
    run = serve(
        scheduler,
        [Job("A", 1, 4), Job("B", 2, 3, arrival=2), Job("C", 1, 1, arrival=2)],
        limits,
    )
    # C, the shorter newcomer, is resident before B, which comes in when C has gone.
    assert run.admitted == ["A", "C", "B"]
    assert runs(run) == ["A", "A", "C", "C", "B", "B", "B", "B", "B", "A", "A", "A"]
    assert run.plans[2].pause == ("A",)
    # A stands back for the phase, which is no preemption.
    assert scheduler.counters.preemptions == 0
