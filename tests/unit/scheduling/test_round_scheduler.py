"""What the scheduler keeps of its own: clock, counters, and its refusals."""

from __future__ import annotations

import pytest

from dwise_predict.scheduling import (
    Estimated,
    Event,
    Finished,
    ResidencyLimits,
    build_scheduler,
    fcfs_scheduler,
    make_policy,
)
from tests.scheduling import BLOCK, Job, serve

ONE = ResidencyLimits(slots=1, block_size=BLOCK, multiplier=1)
NAN = float("nan")


def test_hrrn_orders_anew_as_prompt_blocks_are_processed() -> None:
    """When A has gone, six prompt blocks in all: B waited 6 for its 4, C waited 3 for its 1."""
    jobs = [Job("A", 6, 1), Job("B", 4, 1), Job("C", 1, 1, arrival=3)]
    run = serve(build_scheduler(make_policy("hrrn"), "prefill_first", ONE), jobs, ONE)
    assert run.admitted == ["A", "C", "B"]


@pytest.mark.parametrize(
    ("job", "reached"),
    [
        (Job("a", 1, 6, estimate=2.0), 1),  # once, however long it goes on
        (Job("a", 1, 6, estimate=6.0), 0),
        (Job("a", 1, 6, estimate=2.0, refined=5.0), 0),
        (Job("a", 1, 6, estimate=9.0, refined=3.5), 1),
        (Job("a", 1, 6, estimate=0.0), 0),  # nothing was estimated
    ],
)
def test_requests_that_outlive_their_estimate_are_counted_once(job: Job, reached: int) -> None:
    scheduler = build_scheduler(make_policy("dwise"), "mixed_phase", ONE)
    serve(scheduler, [job], ONE)
    assert scheduler.counters.reached_zero == reached
    assert scheduler.counters.estimates == (job.refined is not None)
    assert scheduler.counters.rounds == job.work


@pytest.mark.parametrize(
    "events",
    [[Job("a", 0, 1, estimate=NAN).arrived()], [Job("a", 0, 1).arrived(), Estimated("a", NAN)]],
)
def test_refuses_estimates_that_are_no_numbers(events: list[Event]) -> None:
    scheduler = build_scheduler(make_policy("dwise"), "mixed_phase", ONE)
    with pytest.raises(ValueError, match="estimate for request 'a' is not a number"):
        scheduler.observe(events)


def test_an_id_may_come_again_after_its_end() -> None:
    scheduler = build_scheduler(make_policy("dwise", {"aging": 1.0}), "mixed_phase", ONE)
    job = Job("a", 0, 5)
    for _ in range(2):
        scheduler.observe([job.arrived()])
        assert scheduler.plan(0.0).run == ("a",)
        scheduler.observe([Finished("a")])
        with pytest.raises(KeyError):
            scheduler.state("a")


def test_a_plan_without_requests_is_empty_and_no_round() -> None:
    scheduler = fcfs_scheduler(1)
    plan = scheduler.plan(0.0)
    assert (plan.admit, plan.run, plan.pause) == ((), (), ())
    assert scheduler.counters.rounds == scheduler.clock.round == 0
