"""What the order is worth: against the best of all schedules, and the paper's example."""

from __future__ import annotations

from functools import cache
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dwise_predict.scheduling import (
    ResidencyLimits,
    RoundScheduler,
    build_scheduler,
    fcfs_scheduler,
    make_policy,
)
from tests.scheduling import BLOCK, Job, serve


def least_total_completion(work: tuple[int, ...], arrival: tuple[int, ...], slots: int) -> int:
    """Smallest sum of completion times over all schedules, by trying every choice."""

    @cache
    def from_here(left: tuple[int, ...], now: int) -> int:
        if not any(left):
            return 0
        here = [i for i, w in enumerate(left) if w and arrival[i] <= now]
        choices = list(combinations(here, min(slots, len(here)))) or [()]
        return min(after(left, now, chosen) for chosen in choices)

    def after(left: tuple[int, ...], now: int, chosen: tuple[int, ...]) -> int:
        rest = tuple(w - (i in chosen) for i, w in enumerate(left))
        finished = sum(rest[i] == 0 for i in chosen)
        return finished * (now + 1) + from_here(rest, now + 1)

    return from_here(work, 0)


sizes = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), min_size=1, max_size=4)


def total_completion(jobs: list[Job], slots: int) -> int:
    """Sum of completion times under DWISE with true rounds."""
    limits = ResidencyLimits(slots, BLOCK)
    scheduler = build_scheduler(make_policy("oracle"), "mixed_phase", limits)
    return sum(serve(scheduler, jobs, limits).completion.values())


@given(sizes=sizes, arrivals=st.lists(st.integers(0, 5), min_size=4, max_size=4))
def test_one_slot_is_optimal_with_arrivals(
    sizes: list[tuple[int, int]], arrivals: list[int]
) -> None:
    """Preemptive SRPT on one machine (Schrage, 1968)."""
    jobs = [Job(f"r{i}", *size, arrival=arrivals[i]) for i, size in enumerate(sizes)]
    work, arrival = tuple(job.work for job in jobs), tuple(job.arrival for job in jobs)
    assert total_completion(jobs, 1) == least_total_completion(work, arrival, 1)


@given(sizes=sizes, slots=st.integers(2, 3))
def test_many_slots_are_optimal_in_a_burst(sizes: list[tuple[int, int]], slots: int) -> None:
    """Shortest first on identical machines without release dates (McNaughton, 1959)."""
    jobs = [Job(f"r{i}", *size) for i, size in enumerate(sizes)]
    work = tuple(job.work for job in jobs)
    assert total_completion(jobs, slots) == least_total_completion(work, (0,) * len(jobs), slots)


FIGURE_4 = [Job("A", 1, 4), Job("B", 1, 6), Job("C", 2, 1), Job("D", 1, 2)]
TWO_SLOTS = ResidencyLimits(slots=2, block_size=BLOCK)


@pytest.mark.parametrize(
    ("scheduler", "completion", "mean"),
    [
        (fcfs_scheduler(2), {"A": 5, "C": 8, "B": 10, "D": 11}, 8.5),
        (
            build_scheduler(make_policy("mlfq"), "prefill_first", TWO_SLOTS),
            {"C": 7, "D": 8, "A": 8, "B": 11},
            8.5,
        ),
        (
            build_scheduler(make_policy("dwise"), "mixed_phase", TWO_SLOTS),
            {"C": 3, "D": 3, "A": 8, "B": 10},
            6.0,
        ),
    ],
    ids=["sglang", "mlfq", "dwise"],
)
def test_figure_4(scheduler: RoundScheduler, completion: dict[str, int], mean: float) -> None:
    """Four requests with the paper's means: SGLang and MLFQ 8.5 rounds, DWISE 6.0.

    The paper gives the means and says that C and D are short; the sizes are ours.
    """
    assert serve(scheduler, FIGURE_4, TWO_SLOTS).completion == completion
    assert sum(completion.values()) / 4 == mean
