"""The ranked former against Algorithm 1 written down line by line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from dwise_predict.scheduling import (
    Arrived,
    Estimated,
    Event,
    Plan,
    ResidencyLimits,
    RoundProcessed,
    build_scheduler,
    make_policy,
)
from tests.scheduling import BLOCK, Job, residency_limits, serve, workloads


class Algorithm1:
    """Sorts everything in every round. Line numbers are the paper's."""

    def __init__(self, slots: int, k: int, kv_tokens: int | None, hysteresis: float) -> None:
        self.slots, self.k, self.kv_tokens, self.hysteresis = slots, k, kv_tokens, hysteresis
        self.arrived: dict[str, Arrived] = {}
        self.prefill: dict[str, int] = {}
        self.rounds_left: dict[str, float] = {}
        self.waiting: set[str] = set()
        self.residents: set[str] = set()
        self.chosen: set[str] = set()

    def observe(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, RoundProcessed):
                for i in event.prompt:
                    self.prefill[i] -= 1  # line 13
                for i in event.denoised:
                    self.rounds_left[i] = max(self.rounds_left[i] - 1, 0)  # line 17
                continue
            i = event.request_id
            if isinstance(event, Arrived):
                self.arrived[i] = event
                self.prefill[i], self.rounds_left[i] = event.prompt_blocks, event.estimate
                self.waiting.add(i)
            elif isinstance(event, Estimated):
                self.rounds_left[i] = event.remaining  # line 15
            else:
                self.waiting.discard(i)  # line 20
                self.residents.discard(i)
                self.chosen.discard(i)

    def order(self, request_id: str) -> tuple[float, float, str]:
        work = self.prefill[request_id] + self.rounds_left[request_id]
        if request_id in self.chosen:
            work *= 1 - self.hysteresis
        return work, self.arrived[request_id].arrival_s, request_id

    def reservation(self, request_id: str) -> int:
        event = self.arrived[request_id]
        return -(-(event.prompt_tokens + event.budget_tokens) // BLOCK) + 2

    def fits(self, request_id: str) -> bool:
        if self.kv_tokens is None:
            return True
        reserved = sum(map(self.reservation, {*self.residents, request_id}))
        return reserved * BLOCK <= 0.9 * self.kv_tokens

    def plan(self) -> Plan:
        ranking = sorted(self.waiting | self.residents, key=self.order)  # line 2
        admit = []
        for rank, i in enumerate(ranking):  # lines 3 to 7
            if i not in self.waiting:
                continue
            if rank < self.slots and len(self.residents) < self.k * self.slots and self.fits(i):
                self.waiting.remove(i)
                self.residents.add(i)
                admit.append(i)
        run = sorted(self.residents, key=self.order)[: self.slots]  # line 8
        pause = [i for i in self.chosen if i not in run]  # line 9
        self.chosen = set(run)
        return Plan(tuple(admit), tuple(run), tuple(pause))


@settings(max_examples=300)
@given(
    jobs=workloads(),
    limits=residency_limits(),
    hysteresis=st.sampled_from([0.0, 0.0, 0.25, 0.5]),
    aborts=st.dictionaries(st.integers(0, 11).map(lambda i: f"r{i:02}"), st.integers(0, 30)),
)
def test_every_plan_is_algorithm_1s(
    jobs: list[Job], limits: ResidencyLimits, hysteresis: float, aborts: dict[str, int]
) -> None:
    expected = Algorithm1(limits.slots, limits.multiplier, limits.kv_tokens, hysteresis)

    def check(events: Sequence[Event], plan: Plan) -> None:
        expected.observe(events)
        wanted = expected.plan()
        assert plan.admit == wanted.admit
        assert set(plan.run) == set(wanted.run)
        assert set(plan.pause) == set(wanted.pause)

    ids = {job.request_id for job in jobs}
    scheduler = build_scheduler(make_policy("dwise"), "mixed_phase", limits, hysteresis)
    serve(scheduler, jobs, limits, {i: at for i, at in aborts.items() if i in ids}, check=check)


def test_what_kept_requests_out_is_counted() -> None:
    short, long = Job("b", 0, 2), Job("a", 0, 9)
    one_resident = ResidencyLimits(slots=1, block_size=BLOCK, multiplier=1)
    by_cap = build_scheduler(make_policy("dwise"), "mixed_phase", one_resident)
    # The shorter one arrives after the longer one took the only place, for 9 rounds less one.
    serve(by_cap, [long, Job("b", 0, 2, arrival=1)], one_resident)
    assert (by_cap.counters.blocked_by_cap, by_cap.counters.blocked_by_kv) == (6, 0)
    one_fits = ResidencyLimits(slots=1, block_size=BLOCK, multiplier=2, kv_tokens=40)
    by_kv = build_scheduler(make_policy("dwise"), "mixed_phase", one_fits)
    serve(by_kv, [long, Job("b", 0, 2, arrival=1)], one_fits)
    assert (by_kv.counters.blocked_by_cap, by_kv.counters.blocked_by_kv) == (0, 6)
    room = ResidencyLimits(slots=1, block_size=BLOCK, multiplier=2)
    free = build_scheduler(make_policy("dwise"), "mixed_phase", room)
    run = serve(free, [long, Job("b", 0, 2, arrival=1)], room)
    assert (free.counters.blocked_by_cap, free.counters.blocked_by_kv) == (0, 0)
    assert free.counters.preemptions == 1
    assert run.finished == {short.request_id: 3, long.request_id: 11}
