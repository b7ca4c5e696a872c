"""One scheduling core in the engine and in the simulator, on the embedded model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pytest
import torch

from dwise_predict.engines.protocol import EngineRequest, Refine, Refinement, ServeResult
from dwise_predict.engines.refinement import refine_with
from dwise_predict.engines.torch_engine.engine import TorchEngine
from dwise_predict.errors import EngineError
from dwise_predict.predictors.network import MemberMLP
from dwise_predict.predictors.refiner import Normalisation, Refiner
from dwise_predict.recipe import load_recipe
from dwise_predict.scheduling import (
    FormerName,
    ResidencyLimits,
    RoundCost,
    RoundScheduler,
    build_scheduler,
    fcfs_scheduler,
    make_policy,
)
from dwise_predict.simulation.predictions import Predictions
from dwise_predict.simulation.replay import replay
from dwise_predict.simulation.workload import SimulatedWorkload
from dwise_predict.workload.builtin import builtin_workload

SLOTS = 6
KV_TOKENS = 1_700
LIMITS = ResidencyLimits(SLOTS, block_size=16, multiplier=4, kv_tokens=KV_TOKENS)

CASES: dict[str, tuple[str, dict[str, object], FormerName]] = {
    "fcfs on SGLang's former": ("fcfs", {}, "prefill_first"),
    "fcfs in mixed rounds": ("fcfs", {}, "mixed_phase"),
    "mlfq": ("mlfq", {}, "prefill_first"),
    "dwise": ("dwise", {}, "mixed_phase"),
    "dwise by residuals and time": (
        "dwise",
        {
            "estimate": "residual",
            "unit": "time",
            "cost": RoundCost(5.0, 0.5, 0.001),
            "block_size": 16,
            "aging": 2.0,
        },
        "mixed_phase",
    ),
    "dwise in rounds of one phase": ("dwise", {}, "single_phase"),
}


@lru_cache
def engine() -> TorchEngine:
    recipe = load_recipe("tiny")
    return TorchEngine.load(
        recipe.model, recipe.engine.model_copy(update={"slots": SLOTS}), recipe.decoding
    )


@lru_cache
def requests() -> tuple[EngineRequest, ...]:
    """Prompts of every category with budgets of 32; admission estimates say little."""
    asked = []
    for request in builtin_workload(0, 32, seed=5):
        ids = tuple(engine().encode(request.messages))
        asked.append(EngineRequest(request.request_id, ids, 32, estimate=5.0 + len(ids) % 23))
    return tuple(asked)


class Recording:
    """Untrained networks: their answers differ from request to request, which is enough here."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.told: dict[str, Refinement] = {}

    def __call__(
        self, hidden_means: npt.NDArray[np.float16], asked: Sequence[EngineRequest]
    ) -> Sequence[Refinement]:
        ids = [request.request_id for request in asked]
        answers = refiner()(hidden_means, asked)
        self.calls.append(ids)
        self.told.update(zip(ids, answers, strict=True))
        return answers


@lru_cache
def refiner() -> Refine:
    hidden = engine().checkpoint.model.config.hidden_size
    generators = [torch.Generator().manual_seed(seed) for seed in range(3)]
    network = MemberMLP(3, (hidden + 2, 16, 40), generators)
    network.last_bias.data.fill_(-3.0)  # about 20 rounds, the scale of the estimates at arrival
    normalisation = Normalisation(torch.zeros(hidden + 2), torch.ones(hidden + 2))
    return refine_with(Refiner(network, normalisation), residuals=True)


def scheduler_for(case: str) -> RoundScheduler:
    policy, options, former = CASES[case]
    return build_scheduler(make_policy(policy, options), former, LIMITS)


@lru_cache
def served(case: str) -> tuple[ServeResult, RoundScheduler, Recording]:
    scheduler, refine = scheduler_for(case), Recording()
    kv_tokens = None if case == "fcfs on SGLang's former" else KV_TOKENS
    result = engine().serve(requests(), scheduler, kv_tokens=kv_tokens, refine=refine)
    return result, scheduler, refine


@pytest.mark.parametrize("case", CASES)
def test_tokens_do_not_depend_on_the_schedule(case: str) -> None:
    stock = engine().serve(requests(), fcfs_scheduler(SLOTS))
    for ours, reference in zip(served(case)[0].requests, stock.requests, strict=True):
        assert ours.output_ids == reference.output_ids
        assert ours.rounds_per_block == reference.rounds_per_block
        assert ours.finish_reason == reference.finish_reason


def test_the_schedules_differ() -> None:
    """Otherwise the other tests would show little."""
    rounds = {case: served(case)[0].rounds for case in CASES}
    for case in ("fcfs in mixed rounds", "dwise", "dwise by residuals and time"):
        assert any(0 < r.prefill_slots < r.slots for r in rounds[case])
    for case in ("mlfq", "dwise", "dwise in rounds of one phase"):
        assert any(r.residents > SLOTS for r in rounds[case])
        assert served(case)[1].counters.preemptions > 0
    assert len({tuple(r.slots for r in records) for records in rounds.values()}) == len(CASES)
    mixed, stock = rounds["dwise"], rounds["fcfs on SGLang's former"]
    assert len(mixed) < 0.8 * len(stock)
    assert served("dwise by residuals and time")[1].counters.overdue > 0
    assert served("dwise")[1].counters.blocked_by_kv > 0


@pytest.mark.parametrize("case", CASES)
def test_the_simulator_replays_every_round(case: str) -> None:
    result, _, refine = served(case)
    told = [refine.told[request.request_id] for request in requests()]
    simulated = replay(
        SimulatedWorkload(
            block_size=16,
            request_ids=tuple(r.request_id for r in requests()),
            categories=("any",) * len(requests()),
            prompt_tokens=np.array([len(r.prompt_ids) for r in requests()]),
            output_tokens=np.array([len(r.output_ids) for r in result.requests]),
            budget_tokens=np.array([r.budget_tokens for r in requests()]),
            rounds_per_block=tuple(r.rounds_per_block for r in result.requests),
        ),
        np.zeros(len(requests())),
        Predictions(
            admission=np.array([r.estimate for r in requests()]),
            refined=np.array([answer.remaining for answer in told]),
            curves=[answer.residual for answer in told if answer.residual is not None],
        ),
        scheduler_for(case),
        RoundCost(1.0, 0.0, 0.0),
    )
    for name in ("slots", "prefill_slots", "kv_tokens", "residents", "waiting"):
        measured = [getattr(record, name) for record in result.rounds]
        assert measured == getattr(simulated, name).tolist(), name
    starts = [record.start_s for record in result.rounds]
    for name in ("first_round_s", "first_block_s", "finished_s"):
        measured_s = [getattr(request, name) for request in result.requests]
        measured_round = np.searchsorted(starts, measured_s)
        replayed_round = np.searchsorted(simulated.round_start_s, getattr(simulated, name))
        assert measured_round.tolist() == replayed_round.tolist(), name


def test_refinements_are_asked_for_in_one_batch_a_round_and_told() -> None:
    result, scheduler, refine = served("dwise")
    asked = [request_id for call in refine.calls for request_id in call]
    assert sorted(asked) == sorted(request.request_id for request in requests())
    assert any(len(call) > 1 for call in refine.calls)
    told = 0
    for request, ours in zip(requests(), result.requests, strict=True):
        # Whoever ends in its first round has nothing left to estimate.
        if sum(ours.rounds_per_block) == 1:
            assert ours.refined is None
            continue
        told += 1
        assert ours.refined == refine.told[request.request_id].remaining
        (alone,) = refiner()(ours.hidden_mean[None], [request])
        assert ours.refined == pytest.approx(alone.remaining, rel=1e-4)
    assert scheduler.counters.estimates == told


def test_a_request_beyond_the_reservable_pool_is_an_error_that_names_it() -> None:
    big = replace(requests()[0], budget_tokens=200)
    limits = ResidencyLimits(SLOTS, block_size=16, kv_tokens=200)
    scheduler = build_scheduler(make_policy("dwise"), "mixed_phase", limits)
    with pytest.raises(EngineError, match=f"{big.request_id!r} reserves .* than the 11 that"):
        engine().serve([big], scheduler, kv_tokens=200)
