"""How long a plan of ``dwise`` takes, against sorting everything in every round.

    python benchmarks/bench_plan.py [rounds]

128 slots, 1,024 residents and 4,096 waiting requests (the paper's scale, and 1k, 10k and 100k
waiting for the growth). Requests arrive, get their first-round estimate, finish and are replaced as
in a real backlog. The baseline is Algorithm 1 written down: it ranks all requests by the same
policy. Both see the same events in the same run, and their plans are compared.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Iterable

from dwise_predict.scheduling import (
    Arrived,
    Estimated,
    Event,
    Finished,
    Plan,
    ResidencyLimits,
    RoundProcessed,
    Scheduler,
    build_scheduler,
    make_policy,
)

LIMITS = ResidencyLimits(slots=128, block_size=32, kv_tokens=1_300_000)
RESIDENTS = 1024


class SortEverything:
    """Algorithm 1 as one would first write it."""

    def __init__(self, limits: ResidencyLimits) -> None:
        self.limits = limits
        self.requests: dict[str, Arrived] = {}
        self.prefill: dict[str, int] = {}
        self.rounds_left: dict[str, float] = {}
        self.resident: dict[str, int] = {}
        self.ran: list[str] = []

    def observe(self, events: Iterable[Event]) -> None:
        """Lines 12 to 20."""
        for event in events:
            if isinstance(event, RoundProcessed):
                for i in event.prompt:
                    self.prefill[i] -= 1
                for i in event.denoised:
                    self.rounds_left[i] = max(self.rounds_left[i] - 1, 0)
                continue
            i = event.request_id
            if isinstance(event, Arrived):
                self.requests[i] = event
                self.prefill[i], self.rounds_left[i] = event.prompt_blocks, event.estimate
            elif isinstance(event, Estimated):
                self.rounds_left[i] = event.remaining
            else:
                for table in (self.requests, self.prefill, self.rounds_left, self.resident):
                    table.pop(i, None)

    def plan(self, now: float) -> Plan:
        """Lines 2 to 9."""
        limits = self.limits
        ranking = sorted(self.requests, key=self._order)
        admit = []
        reserved = sum(self.resident.values())
        for i in ranking[: limits.slots]:
            if i in self.resident or len(self.resident) >= limits.cap:
                continue
            request = self.requests[i]
            need = limits.reservation(request.prompt_tokens, request.budget_tokens)
            if reserved + need <= limits.pool_blocks:
                reserved += need
                self.resident[i] = need
                admit.append(i)
        run = [i for i in ranking if i in self.resident][: limits.slots]
        chosen = set(run)
        pause = [i for i in self.ran if i in self.resident and i not in chosen]
        self.ran = run
        return Plan(tuple(admit), tuple(run), tuple(pause))

    def _order(self, i: str) -> tuple[float, float, str]:
        return self.prefill[i] + self.rounds_left[i], self.requests[i].arrival_s, i


class Backlog:
    """Requests that are served as planned; what finishes is replaced, so that the load stays."""

    def __init__(self, waiting: int) -> None:
        self.random = random.Random(0)
        self.prefill: dict[str, int] = {}
        self.rounds: dict[str, int] = {}
        self.fresh: set[str] = set()
        self.waiting = waiting

    def arrive(self, rounds: float, now: float, error: float = 1.0) -> Arrived:
        """A new request of ``rounds`` denoising rounds, estimated within a factor of 2^error."""
        request_id = f"r{len(self.prefill):07}"
        prompt = self.random.randrange(0, 20)
        self.prefill[request_id] = prompt
        self.rounds[request_id] = max(2, round(rounds))
        self.fresh.add(request_id)
        estimate = rounds * 2 ** self.random.uniform(-error, error)
        return Arrived(request_id, now, prompt * 32 + 5, prompt, 256, estimate)

    def waves(self) -> Iterable[list[Event]]:
        """Arrivals that fill the residents, each wave shorter than the one before, then the queue.

        The queue is longer than what is resident, so that the number of residents stays.
        """
        size = 128
        for wave in range(RESIDENTS // size):
            yield [self.arrive(2000 * 0.6**wave, float(wave), 0.1) for _ in range(size)]
        yield [self.arrive(self.random.uniform(5000, 9000), 10.0) for _ in range(self.waiting)]

    def after(self, plan: Plan, now: float) -> list[Event]:
        """What happens in the round of ``plan``, and new arrivals for what finished."""
        prompt = [i for i in plan.run if self.prefill[i]]
        denoised = [i for i in plan.run if not self.prefill[i]]
        events: list[Event] = [RoundProcessed(prompt, denoised)]
        for i in prompt:
            self.prefill[i] -= 1
        for i in denoised:
            self.rounds[i] -= 1
            if self.rounds[i] == 0:
                events.append(Finished(i))
                events.append(self.arrive(self.random.uniform(2, 60), now))
            elif i in self.fresh:
                self.fresh.remove(i)
                events.append(Estimated(i, self.rounds[i] * 2 ** self.random.uniform(-0.3, 0.3)))
        return events


class Timed:
    """A scheduler whose times are kept, in seconds by call."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.observed: list[float] = []
        self.planned: list[float] = []

    def round(self, events: list[Event], now: float) -> Plan:
        """One round."""
        start = time.perf_counter()
        self.scheduler.observe(events)
        between = time.perf_counter()
        plan = self.scheduler.plan(now)
        self.planned.append(time.perf_counter() - between)
        self.observed.append(between - start)
        return plan


def measure(waiting: int, rounds: int) -> tuple[Timed, Timed]:
    """Ours and the baseline after ``rounds`` rounds; raises SystemExit when their plans differ."""
    scheduler = build_scheduler(make_policy("dwise"), "mixed_phase", LIMITS)
    baseline = SortEverything(LIMITS)
    backlog = Backlog(waiting)
    for wave in backlog.waves():
        scheduler.observe(wave)
        baseline.observe(wave)
        scheduler.plan(0.0)
        baseline.plan(0.0)
    ours, theirs = Timed(scheduler), Timed(baseline)
    events: list[Event] = []
    changes = 0
    for now in range(rounds):
        plan, expected = ours.round(events, now), theirs.round(events, now)
        if plan.admit != expected.admit or set(plan.run) != set(expected.run):
            raise SystemExit(f"the plans of round {now} differ")
        changes += len(plan.admit) + len(plan.pause)
        events = backlog.after(plan, 20.0 + now)
    print(
        f"{waiting:7,} waiting, {len(baseline.resident):5,} residents at the end, "
        f"{changes / rounds:.1f} admitted or displaced a round"
    )
    return ours, theirs


def main(rounds: int) -> None:
    """Print medians, 99th percentiles and ratios."""
    for waiting in (1_000, 4_096, 10_000, 100_000):
        ours, theirs = measure(waiting, min(rounds, 10_000_000 // waiting))
        for name in ("planned", "observed"):
            own, other = getattr(ours, name), getattr(theirs, name)
            median, tail = statistics.median(own), statistics.quantiles(own, n=100)[98]
            print(
                f"  {name:<8} {median * 1e3:7.4f} ms (p99 {tail * 1e3:6.4f})   sorting everything "
                f"{statistics.median(other) * 1e3:8.4f} ms   "
                f"{median / statistics.median(other):6.3f} of it"
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
