"""What the scheduler keeps of its own: clock, counters, and its refusals."""

from __future__ import annotations

import pytest

from dwise_predict.scheduling import (
    Estimated,
    Event,
    Finished,
    ResidencyLimits,
    RoundProcessed,
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
        (Job("a", 1, 6, estimate=5.5), 0),  # not zero yet when the last round began
        (Job("a", 1, 6, estimate=5.0), 1),
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


ARRIVED = Job("a", 0, 1).arrived()


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([ARRIVED._replace(estimate=NAN)], "the estimate of request 'a' is not a finite number"),
        ([ARRIVED._replace(estimate=float("inf"))], "not a finite number"),
        ([ARRIVED._replace(arrival_s=NAN)], "the arrival of request 'a' is not a finite number"),
        ([ARRIVED._replace(budget_tokens=-1)], "negative size"),
        ([ARRIVED._replace(prompt_blocks=-1)], "negative size"),
        ([ARRIVED, Estimated("a", NAN)], "the estimate of request 'a' is not a finite number"),
        ([ARRIVED, Estimated("a", 2.0, [2.0, NAN])], "the residual of request 'a'"),
        ([ARRIVED, Estimated("a", 2.0, [])], "the residual of request 'a' is empty"),
        ([ARRIVED, RoundProcessed(denoised=["a"])], "was not to denoise"),
    ],
)
def test_refuses_what_would_corrupt_the_order(events: list[Event], message: str) -> None:
    scheduler = build_scheduler(make_policy("dwise"), "mixed_phase", ONE)
    with pytest.raises(ValueError, match=message):
        scheduler.observe(events)


def test_a_paused_request_does_not_denoise() -> None:
    scheduler = build_scheduler(
        make_policy("dwise"), "mixed_phase", ResidencyLimits(slots=1, block_size=BLOCK)
    )
    scheduler.observe([Job("long", 0, 9).arrived()])
    assert scheduler.plan(0.0).run == ("long",)
    scheduler.observe([RoundProcessed(denoised=["long"]), Job("short", 0, 1).arrived()])
    assert scheduler.plan(1.0).pause == ("long",)
    with pytest.raises(ValueError, match="'long' was not to denoise"):
        scheduler.observe([RoundProcessed(denoised=["long"])])


def test_formers_by_name_and_with_their_own_options_only() -> None:
    policy = make_policy("dwise")
    with pytest.raises(ValueError, match="did you mean 'mixed_phase'"):
        build_scheduler(policy, "mixed_phases", ONE)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="neither hysteresis nor lean"):
        build_scheduler(policy, "prefill_first", ONE, hysteresis=0.1)


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
