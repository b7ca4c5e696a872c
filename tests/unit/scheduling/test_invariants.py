"""What holds under every policy on every former; ``tests.scheduling.serve`` checks each plan."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dwise_predict.scheduling import (
    FormerName,
    LeanFill,
    ResidencyLimits,
    RoundCost,
    RoundScheduler,
    build_scheduler,
    make_policy,
)
from dwise_predict.scheduling.formers import PrefillFirst
from tests.scheduling import BLOCK, Job, residency_limits, serve, workloads

FORMERS: list[FormerName] = ["prefill_first", "mixed_phase", "single_phase"]
POLICIES: list[tuple[str, dict[str, object]]] = [
    ("fcfs", {}),
    ("hrrn", {}),
    ("mlfq", {"quantum": 1, "promote_after": 9}),
    ("mlfq", {"quantum": 2, "skip_join": True}),
    ("ssjf", {}),
    ("s3", {"edges": (2.0, 5.0)}),
    ("ltr", {}),
    ("trail", {"rounds_per_token": 0.5}),
    ("dwise", {}),
    ("dwise", {"aging": 2.0}),
    ("dwise", {"unit": "time", "cost": RoundCost(1, 0.5, 0.25), "block_size": BLOCK}),
    ("dwise", {"probe": (0.5, 1.0, 4.0)}),
]

policies = st.sampled_from(POLICIES)
formers = st.sampled_from(FORMERS)


def scheduler_for(
    policy: tuple[str, dict[str, object]],
    former: FormerName,
    limits: ResidencyLimits,
    hysteresis: float = 0.0,
    held_rows: bool = False,
    lean: LeanFill | None = None,
) -> RoundScheduler:
    if former == "prefill_first":
        hysteresis, lean = 0.0, None
    return build_scheduler(make_policy(*policy), former, limits, hysteresis, held_rows, lean)


def as_seen(limits: ResidencyLimits, policy: str, former: FormerName) -> ResidencyLimits:
    """Non-preemptive policies on SGLang's former have as many residents as slots and no pool."""
    if former == "prefill_first" and not make_policy(policy).preemptive:
        return ResidencyLimits(limits.slots, BLOCK, multiplier=1)
    return limits


@given(
    policy=policies,
    former=formers,
    jobs=workloads(),
    limits=residency_limits(),
    hysteresis=st.sampled_from([0.0, 0.3]),
    held_rows=st.booleans(),
    lean=st.sampled_from([None, 0.05, 0.5, 4.0]),
    aborts=st.dictionaries(st.integers(0, 11).map(lambda i: f"r{i:02}"), st.integers(0, 30)),
)
def test_every_plan_keeps_the_rules_and_every_request_finishes(
    policy: tuple[str, dict[str, object]],
    former: FormerName,
    jobs: list[Job],
    limits: ResidencyLimits,
    hysteresis: float,
    held_rows: bool,
    lean: float | None,
    aborts: dict[str, int],
) -> None:
    """Slots, cap and pool are never exceeded; nobody is lost, run twice in a round or stuck."""
    ids = {job.request_id for job in jobs}
    fill = None if lean is None else LeanFill(RoundCost(1, 0.5, 0.25), BLOCK, lean)
    scheduler = scheduler_for(policy, former, limits, hysteresis, held_rows, fill)
    run = serve(
        scheduler,
        jobs,
        as_seen(limits, policy[0], former),
        aborts={i: at for i, at in aborts.items() if i in ids},
    )
    assert len(run.admitted) == len(set(run.admitted))
    if former != "mixed_phase":
        for plan, prefilled in zip(run.plans, run.prefilled, strict=True):
            assert prefilled in (0, len(plan.run))
    assert scheduler.counters.rounds == len(run.plans)


@given(
    policy=policies,
    former=formers,
    jobs=workloads(),
    limits=residency_limits(),
    seed=st.integers(0, 1000),
)
def test_plans_do_not_depend_on_the_order_of_events(
    policy: tuple[str, dict[str, object]],
    former: FormerName,
    jobs: list[Job],
    limits: ResidencyLimits,
    seed: int,
) -> None:
    seen = as_seen(limits, policy[0], former)

    def plans(shuffle: random.Random | None) -> list[tuple[tuple[str, ...], set[str], set[str]]]:
        run = serve(scheduler_for(policy, former, limits), jobs, seen, shuffle=shuffle)
        return [(plan.admit, set(plan.run), set(plan.pause)) for plan in run.plans]

    assert plans(None) == plans(random.Random(seed))


@given(former=formers, jobs=workloads(), slots=st.integers(1, 4), multiplier=st.integers(1, 3))
def test_first_come_is_first_admitted(
    former: FormerName, jobs: list[Job], slots: int, multiplier: int
) -> None:
    limits = ResidencyLimits(slots, BLOCK, multiplier=multiplier)
    run = serve(build_scheduler(make_policy("fcfs"), former, limits), jobs, limits)
    expected = sorted(jobs, key=lambda job: (job.arrival, job.request_id))
    assert run.admitted == [job.request_id for job in expected]


@given(jobs=workloads(), limits=residency_limits())
def test_first_come_keeps_its_place_when_kv_is_short(
    jobs: list[Job], limits: ResidencyLimits
) -> None:
    """SGLang's former lets nobody pass a request that does not fit yet."""
    run = serve(RoundScheduler(make_policy("fcfs"), PrefillFirst(limits)), jobs, limits)
    expected = sorted(jobs, key=lambda job: (job.arrival, job.request_id))
    assert run.admitted == [job.request_id for job in expected]


@given(jobs=workloads(), slots=st.integers(1, 4))
def test_no_slot_idles_while_a_request_could_use_it(jobs: list[Job], slots: int) -> None:
    limits = ResidencyLimits(slots, BLOCK)
    burst = [replace(job, arrival=0) for job in jobs]
    run = serve(build_scheduler(make_policy("dwise"), "mixed_phase", limits), burst, limits)
    for index, plan in enumerate(run.plans):
        unfinished = sum(end > index for end in run.finished.values())
        assert len(plan.run) == min(slots, unfinished)


def test_a_request_that_can_never_fit_is_refused_and_nothing_else_is_disturbed() -> None:
    limits = ResidencyLimits(slots=2, block_size=BLOCK, kv_tokens=40)  # 9 blocks
    for former in ("mixed_phase", "single_phase"):
        scheduler = build_scheduler(make_policy("dwise"), former, limits)  # type: ignore[arg-type]
        small, big = Job("small", 1, 2), Job("big", 3, 2)
        with pytest.raises(ValueError, match=r"'big' reserves 10 blocks .* more than the 9 that"):
            scheduler.observe([small.arrived(), big.arrived()])
        assert scheduler.plan(0.0).run == ("small",)
