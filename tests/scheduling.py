"""A workload in rounds, served round by round with every rule of the plan checked."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from hypothesis import strategies as st

from dwise_predict.scheduling import (
    Arrived,
    Estimated,
    Event,
    Finished,
    Plan,
    ResidencyLimits,
    RoundProcessed,
    Scheduler,
    plan_faults,
)

BLOCK = 4


@dataclass(frozen=True)
class Job:
    """A request that needs ``prefill`` prompt blocks and ``rounds`` denoising rounds.

    Its output blocks take ``block_rounds`` rounds each. ``estimate`` is told at arrival (None: the
    true rounds), ``refined`` after the first denoising round (None: nothing is told).
    """

    request_id: str
    prefill: int
    rounds: int
    arrival: int = 0
    estimate: float | None = None
    refined: float | None = None
    block_rounds: int = 3
    budget_tokens: int = 16

    @property
    def work(self) -> int:
        return self.prefill + self.rounds

    @property
    def reservation(self) -> int:
        return self.prefill + 1 + self.budget_tokens // BLOCK + 2

    def arrived(self) -> Arrived:
        estimate = self.rounds if self.estimate is None else self.estimate
        return Arrived(
            self.request_id,
            float(self.arrival),
            self.prefill * BLOCK + 1,
            self.prefill,
            self.budget_tokens,
            float(estimate),
        )


@dataclass
class Run:
    """The plans that ran something and their prompt blocks; who ended with which plan, and when."""

    plans: list[Plan] = field(default_factory=list)
    prefilled: list[int] = field(default_factory=list)
    finished: dict[str, int] = field(default_factory=dict)
    completion: dict[str, int] = field(default_factory=dict)

    @property
    def admitted(self) -> list[str]:
        return [request_id for plan in self.plans for request_id in plan.admit]


class Checked(Protocol):
    """Sees every batch of events and the plan that follows."""

    def __call__(self, events: Sequence[Event], plan: Plan) -> None: ...


def serve(
    scheduler: Scheduler,
    jobs: Sequence[Job],
    limits: ResidencyLimits,
    aborts: Mapping[str, int] | None = None,
    shuffle: random.Random | None = None,
    check: Checked | None = None,
) -> Run:
    """Serve ``jobs`` to their end; fails when a plan breaks a rule or no end comes.

    ``aborts`` says in which round a request is taken away, wherever it then is. ``shuffle``
    reorders the events of a round that concern different requests.
    """
    run = Run()
    aborts = aborts or {}
    prefill = {job.request_id: job.prefill for job in jobs}
    rounds = {job.request_id: job.rounds for job in jobs}
    by_id = {job.request_id: job for job in jobs}
    coming = sorted(jobs, key=lambda job: job.arrival)
    waiting: set[str] = set()
    residents: set[str] = set()
    happened: list[list[Event]] = []
    happened_last = -1
    last = max(job.arrival for job in jobs) + sum(job.work for job in jobs) + 1
    for now in range(last + 1):
        arrivals: list[list[Event]] = []
        while coming and coming[0].arrival <= now:
            job = coming.pop(0)
            waiting.add(job.request_id)
            arrivals.append([job.arrived()])
        gone = [i for i, at in aborts.items() if at == now and i in waiting | residents]
        for request_id in gone:
            waiting.discard(request_id)
            residents.discard(request_id)
        if shuffle is not None:
            shuffle.shuffle(happened)
            shuffle.shuffle(arrivals)
        groups = [*happened, *arrivals, *([Finished(i)] for i in gone)]
        events = [event for group in groups for event in group]
        scheduler.observe(events)
        plan = scheduler.plan(float(now))
        if check is not None:
            check(events, plan)
        assert plan_faults(plan, waiting, residents, limits.slots) == []
        ran = run.plans[-1].run if run.plans and happened_last == now - 1 else ()
        assert set(plan.pause) <= set(ran), "only residents of the last round are paused"
        waiting -= set(plan.admit)
        residents |= set(plan.admit)
        assert len(residents) <= limits.cap
        if limits.kv_tokens is not None:
            reserved = sum(by_id[i].reservation for i in residents)
            assert reserved * limits.block_size <= limits.kv_share * limits.kv_tokens
        if not plan.run:
            assert not waiting and not residents, "requests are left, but nothing runs"
            if not coming:
                break
            happened = []
            continue
        run.plans.append(plan)
        happened_last = now
        run.prefilled.append(sum(prefill[i] > 0 for i in plan.run))
        happened = []
        for request_id in plan.run:
            if prefill[request_id]:
                prefill[request_id] -= 1
                happened.append([RoundProcessed([request_id])])
                continue
            job = by_id[request_id]
            rounds[request_id] -= 1
            done = job.rounds - rounds[request_id]
            block_done = done % job.block_rounds == 0 or not rounds[request_id]
            group: list[Event] = [
                RoundProcessed(denoised=[request_id], committed=[request_id] * block_done)
            ]
            if not rounds[request_id]:
                group.append(Finished(request_id))
                residents.remove(request_id)
                run.finished[request_id] = len(run.plans)
                run.completion[request_id] = now + 1
            elif done == 1 and job.refined is not None:
                group.append(Estimated(request_id, job.refined))
            happened.append(group)
    assert set(run.finished) | set(aborts) >= set(by_id), "a request was lost"
    for request_id in run.finished:
        assert prefill[request_id] == 0 == rounds[request_id]
        assert sum(request_id in plan.run for plan in run.plans) == by_id[request_id].work
    return run


@st.composite
def workloads(draw: st.DrawFn, most: int = 12) -> list[Job]:
    """Up to ``most`` jobs; estimates are often wrong, refinements better, in halves of rounds."""
    halves = st.integers(0, 24).map(lambda n: n / 2)
    n = draw(st.integers(1, most))
    return [
        Job(
            request_id=f"r{i:02}",
            prefill=draw(st.integers(0, 4)),
            rounds=draw(st.integers(1, 8)),
            arrival=draw(st.integers(0, 12)),
            estimate=draw(st.none() | halves),
            refined=draw(st.none() | halves),
            block_rounds=draw(st.integers(1, 4)),
            budget_tokens=draw(st.sampled_from([4, 8, 16])),
        )
        for i in range(n)
    ]


@st.composite
def residency_limits(draw: st.DrawFn) -> ResidencyLimits:
    """Few slots, small caps, and KV pools from just enough for any one job to unlimited."""
    return ResidencyLimits(
        slots=draw(st.integers(1, 4)),
        block_size=BLOCK,
        multiplier=draw(st.integers(1, 3)),
        kv_tokens=draw(st.none() | st.integers(56, 200)),
    )
