from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dwise_predict.scheduling import (
    Arrived,
    Event,
    Finished,
    Plan,
    RoundProcessed,
    fcfs_scheduler,
    plan_faults,
)


def arrived(request_id: str, prompt_blocks: int, at: float = 0.0) -> Arrived:
    return Arrived(request_id, at, prompt_blocks * 4 + 1, prompt_blocks, 16)


def test_hand_worked_schedule() -> None:
    """Two slots; A: 2 prompt blocks, 2 rounds. B: short prompt, 3 rounds. C: 1 block, 1 round."""
    scheduler = fcfs_scheduler(slots=2)
    scheduler.observe([arrived("A", 2), arrived("B", 0), arrived("C", 1)])
    # A's prompt blocks keep B, which is resident from the start, from denoising.
    assert scheduler.plan(0.0) == Plan(admit=("A", "B"), run=("A",))
    scheduler.observe([RoundProcessed(["A"])])
    assert scheduler.plan(1.0) == Plan(run=("A",))
    scheduler.observe([RoundProcessed(["A"])])
    assert scheduler.plan(2.0) == Plan(run=("B", "A"))
    both = RoundProcessed(denoised=["A", "B"], committed=["A"])
    scheduler.observe([both])
    assert scheduler.plan(3.0) == Plan(run=("B", "A"))
    scheduler.observe([both, Finished("A")])
    # C takes A's slot, and its prompt block interrupts B.
    assert scheduler.plan(4.0) == Plan(admit=("C",), run=("C",), pause=("B",))
    scheduler.observe([RoundProcessed(["C"])])
    assert scheduler.plan(5.0) == Plan(run=("B", "C"))
    scheduler.observe([RoundProcessed(denoised=["B"]), Finished("B")])
    scheduler.observe([RoundProcessed(denoised=["C"]), Finished("C")])
    assert scheduler.plan(6.0) == Plan()


def test_a_short_prompt_is_not_starved_when_it_joins_residents_that_denoise() -> None:
    scheduler = fcfs_scheduler(slots=2)
    scheduler.observe([arrived("long", 0), arrived("short", 0)])
    assert set(scheduler.plan(0.0).run) == {"long", "short"}


def test_needs_a_slot() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        fcfs_scheduler(slots=0)


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([arrived("A", 1), arrived("A", 1)], "arrived twice"),
        ([Finished("A")], "Finished for request 'A': unknown"),
        ([RoundProcessed(["A"])], "RoundProcessed for request 'A': unknown"),
        ([arrived("A", 1), RoundProcessed(denoised=["B"])], "request 'B': unknown"),
        ([arrived("A", 0), RoundProcessed(["A"])], "no prompt block to do"),
        ([arrived("A", 1), RoundProcessed(["A"])], "no prompt block to do"),
        ([arrived("A", 0), RoundProcessed(denoised=["A"])], "was not to denoise"),
    ],
)
def test_refuses_events_that_cannot_be(events: list[Event], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fcfs_scheduler(slots=1).observe(events)


@given(
    slots=st.integers(1, 5),
    jobs=st.lists(
        st.tuples(st.integers(0, 4), st.integers(1, 6), st.integers(0, 10)), min_size=1, max_size=20
    ),
)
def test_invariants(slots: int, jobs: list[tuple[int, int, int]]) -> None:
    """Slots bound residents, admission is first come first served, phases never mix, all finish."""
    scheduler = fcfs_scheduler(slots)
    prefill = {f"r{i:02}": job[0] for i, job in enumerate(jobs)}
    rounds = {f"r{i:02}": job[1] for i, job in enumerate(jobs)}
    coming = deque(
        sorted((job[2], f"r{i:02}") for i, job in enumerate(jobs)),
    )
    order = [request_id for _, request_id in coming]
    waiting: set[str] = set()
    residents: set[str] = set()
    admitted: list[str] = []
    events: list[Event] = []
    for now in range(sum(job[0] + job[1] for job in jobs) + 12):
        while coming and coming[0][0] <= now:
            _, request_id = coming.popleft()
            events.append(arrived(request_id, prefill[request_id], now))
            waiting.add(request_id)
        scheduler.observe(events)
        events = []
        plan = scheduler.plan(now)
        assert plan_faults(plan, waiting, residents, slots) == []
        admitted += plan.admit
        waiting -= set(plan.admit)
        residents |= set(plan.admit)
        assert len(residents) <= slots
        assert not waiting or len(residents) == slots
        prefilling = {i for i in residents if prefill[i] > 0}
        assert set(plan.run) == (prefilling or residents)
        for request_id in plan.run:
            if prefill[request_id] > 0:
                prefill[request_id] -= 1
                events.append(RoundProcessed([request_id]))
                continue
            rounds[request_id] -= 1
            events.append(RoundProcessed(denoised=[request_id]))
            if rounds[request_id] == 0:
                residents.remove(request_id)
                events.append(Finished(request_id))
    assert admitted == order
    assert not (coming or waiting or residents)
    assert set(rounds.values()) == {0}
