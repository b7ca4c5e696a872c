"""DWISE on the embedded model: its estimates, and rounds as the simulator predicts them."""

import numpy as np
import pytest

from dwise_predict.bundle import PredictorBundle
from dwise_predict.scheduling import (
    ResidencyLimits,
    RoundCost,
    build_scheduler,
    fcfs_scheduler,
    make_policy,
)
from dwise_predict.simulation.predictions import Predictions
from dwise_predict.simulation.replay import replay
from dwise_predict.simulation.workload import SimulatedWorkload
from tests.e2e.sglang.inprocess import Setting
from tests.e2e.sglang.workloads import TINY, tiny_requests, torch_engine

CONSTANT = RoundCost(base_ms=1.0, slot_ms=0.0, kv_ms=0.0)


@pytest.fixture(scope="module")
def served():
    """Requests, their texts and what the built-in engine measures of them."""
    engine = torch_engine()
    queue, requests = tiny_requests(engine, 64)
    return queue, requests, engine.serve(queue, fcfs_scheduler(8)).requests


def run(sglang, queue):
    """Serve ``queue`` as a burst; returns requests as tracked, and the slots of each round."""
    for request in queue:
        sglang.submit(request.request_id, request.prompt_ids, request.budget_tokens)
    runtime = sglang.scheduler._dwise
    tracked, slots = dict(runtime.tracked), []
    while not all(request.finished() for request in sglang.requests.values()):
        slots.append(len(sglang.step().reqs))
    sglang.assert_drained()
    assert runtime.state()["fallbacks"] == {}
    return [tracked[request.request_id] for request in queue], slots


def test_estimates_are_those_of_the_bundle(engine, served, monkeypatch):
    queue, requests, answers = served
    monkeypatch.setenv("DWISE_BUNDLE", "tiny")
    tracked, _ = run(engine(Setting(TINY)), queue)
    bundle = PredictorBundle.from_pretrained("tiny")
    for request, found in zip(queue, tracked, strict=True):
        text = requests[request.request_id].text
        expected = bundle.admission.rounds(
            words=len(text.split()),
            newlines=text.count("\n"),
            prompt_tokens=len(request.prompt_ids),
            token_ids=request.prompt_ids,
        )
        assert found.estimate == expected
    refined = bundle.refiner(
        np.stack([answer.hidden_mean for answer in answers]),
        [len(request.prompt_ids) for request in queue],
        [request.budget_tokens for request in queue],
    ).mean()
    found = np.array([request.refined for request in tracked])
    ended_at_once = np.array([request.rounds == 1 for request in tracked])
    np.testing.assert_array_equal(np.isnan(found), ended_at_once)
    np.testing.assert_allclose(found[~ended_at_once], refined[~ended_at_once], rtol=1e-2)


@pytest.mark.parametrize(
    ("policy", "kv_tokens"),
    [
        ("dwise", 8192),
        ("dwise", 1536),
        ("dwise-residual", 8192),
        ("fcfs", 1536),
        ("mlfq", 8192),
        ("hrrn", 8192),
    ],
)
def test_rounds_are_those_of_the_simulator(engine, served, monkeypatch, policy, kv_tokens):
    queue, _, answers = served
    if policy.startswith("dwise"):
        monkeypatch.setenv("DWISE_BUNDLE", "tiny")
    monkeypatch.setenv("DWISE_POLICY", policy)
    monkeypatch.setenv("DWISE_RESIDENT_MULTIPLIER", "3")
    sglang = engine(Setting(TINY, kv_tokens=kv_tokens))
    curves = record_curves(sglang, monkeypatch)
    tracked, slots = run(sglang, queue)
    for request, answer in zip(tracked, answers, strict=True):
        assert request.rounds_per_block == list(answer.rounds_per_block)
    workload = SimulatedWorkload(
        block_size=16,
        request_ids=tuple(request.request_id for request in queue),
        categories=("all",) * len(queue),
        prompt_tokens=np.array([len(request.prompt_ids) for request in queue]),
        output_tokens=np.array([len(answer.output_ids) for answer in answers]),
        budget_tokens=np.array([request.budget_tokens for request in queue]),
        rounds_per_block=tuple(answer.rounds_per_block for answer in answers),
    )
    predictions = Predictions(
        admission=np.array([request.estimate for request in tracked]),
        refined=np.nan_to_num([request.refined for request in tracked])
        if policy.startswith("dwise")
        else None,
        curves=[curves.get(request.request_id, [0.0]) for request in queue]
        if policy == "dwise-residual"
        else None,
    )
    limits = ResidencyLimits(slots=8, block_size=16, multiplier=3, kv_tokens=kv_tokens)
    name, _, curve = policy.partition("-")
    chosen = make_policy(name, {"estimate": "residual"} if curve else {})
    scheduler = build_scheduler(chosen, "mixed_phase", limits)
    simulated = replay(workload, np.zeros(len(queue)), predictions, scheduler, CONSTANT)
    assert slots == simulated.slots.tolist()
    planner = sglang.scheduler._dwise.planner
    core = planner.core
    core.observe(planner.events)  # of the last round, after which there is nothing to plan
    assert core.counters == scheduler.counters


def record_curves(sglang, monkeypatch):
    planner, curves = sglang.scheduler._dwise.planner, {}
    refined = planner.refined

    def noted(requests, estimates):
        for request, curve in zip(requests, estimates, strict=True):
            curves[request.request_id] = curve
        refined(requests, estimates)

    monkeypatch.setattr(planner, "refined", noted)
    return curves
