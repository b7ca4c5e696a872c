"""A workload served by an engine under any policy, with the results that a simulation has too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import pyarrow as pa

from dwise_predict.bundle import PredictorBundle
from dwise_predict.engines.protocol import (
    Engine,
    EngineRequest,
    Refine,
    ServedRequest,
    ServeResult,
    Watch,
)
from dwise_predict.engines.recording import engine_request, request_row
from dwise_predict.engines.refinement import refine_with
from dwise_predict.errors import EngineError
from dwise_predict.results import Conditions, Results, summarise
from dwise_predict.results.records import ESTIMATES, REQUESTS_SCHEMA, ROUNDS_SCHEMA
from dwise_predict.scheduling import ResidencyLimits, RoundCost
from dwise_predict.simulation.estimates import TARGETS
from dwise_predict.simulation.run import Arrivals, Setup
from dwise_predict.simulation.workload import FloatArray
from dwise_predict.workload.schema import Request, newline_count, word_count


@dataclass(frozen=True)
class Told:
    """What a policy is told about N requests, in its own unit.

    ``admission`` float64 [N] is told at arrival, ``refine`` is asked after the first denoising
    round, or ``watch`` in every round.
    """

    admission: FloatArray
    refine: Refine | None = None
    watch: Watch | None = None


def serve_workload(
    requests: Sequence[Request],
    engine: Engine,
    setup: Setup,
    limits: ResidencyLimits,
    arrivals: Arrivals,
    budget_tokens: int,
    cost: RoundCost,
    bundle: PredictorBundle | None = None,
    on_finished: Callable[[ServedRequest], None] | None = None,
    told: Told | None = None,
) -> Results:
    """Serve ``requests`` with ``engine`` under ``setup``.

    Args:
        requests: N requests.
        engine: with as many slots as ``limits``.
        setup: which scheduler.
        limits: residents and KV. Where the former keeps to no KV limit, the cache has room for as
            many residents as it allows.
        arrivals: of the requests.
        budget_tokens: for requests without a budget of their own.
        cost: of a round, for policies that rank by time and are given no model of their own.
        bundle: predicts for policies that rank by denoising rounds: at arrival from the prompt,
            after the first denoising round from the hidden state.
        on_finished: called as each request finishes.
        told: by other predictors than those of a bundle; policies that rank by output tokens
            need it.

    Raises:
        EngineError: the engine cannot serve a request, neither ``bundle`` nor ``told`` serves the
            policy, or both are given.
        SimulationError: the setup is impossible.
        IncompatibleBundleError: the bundle is of another model or decoding.
    """
    if told is not None and bundle is not None:
        raise EngineError("give bundle or told: a policy has one source of estimates")
    target = TARGETS[setup.policy]
    if told is None and target not in ("nothing", "rounds"):
        raise EngineError(
            f"policy {setup.policy} ranks by output tokens, which bundles do not predict: give told"
        )
    asked = [
        engine_request(request, engine, budget_tokens, arrival_s)
        for request, arrival_s in zip(requests, arrivals.seconds.tolist(), strict=True)
    ]
    if told is None and target == "rounds":
        if bundle is None:
            raise EngineError(f"policy {setup.policy} ranks by predicted rounds: give a bundle")
        bundle.require(engine.fingerprint)
        told = _told_by(bundle, asked, requests, setup)
    if told is not None:
        estimates = told.admission.tolist()
        asked = [replace(r, estimate=e) for r, e in zip(asked, estimates, strict=True)]
    scheduler = setup.scheduler(limits, cost)
    served = engine.serve(
        asked,
        scheduler,
        on_finished,
        kv_tokens=_cache_tokens(asked, scheduler.former.limits),
        refine=None if told is None else told.refine,
        watch=None if told is None else told.watch,
    )
    table = _requests_table(requests, asked, served, engine, target != "nothing")
    rounds = pa.Table.from_pylist([asdict(r) for r in served.rounds], schema=ROUNDS_SCHEMA)
    conditions = Conditions(
        policy=setup.policy,
        former=setup.former,
        engine=engine.settings.name,
        arrival=arrivals.pattern,
        slots=limits.slots,
        preemptions=scheduler.counters.preemptions,
        # The scheduler counts rounds down, which says nothing of an estimate in tokens.
        reached_zero=scheduler.counters.reached_zero if target == "rounds" else 0,
        blocked_by_cap=scheduler.counters.blocked_by_cap,
    )
    return Results(table, rounds, summarise(table, rounds, conditions))


def _told_by(
    bundle: PredictorBundle,
    asked: Sequence[EngineRequest],
    requests: Sequence[Request],
    setup: Setup,
) -> Told:
    texts = [request.text for request in requests]
    admission = bundle.admission.rounds_batch(
        np.array([word_count(text) for text in texts]),
        np.array([newline_count(text) for text in texts]),
        np.array([len(request.prompt_ids) for request in asked]),
        [request.prompt_ids for request in asked],
    )
    return Told(admission, refine_with(bundle.refiner, residuals=setup.reads_curves))


def _cache_tokens(asked: Sequence[EngineRequest], limits: ResidencyLimits) -> int:
    if limits.kv_tokens is not None:
        return limits.kv_tokens
    needs = [limits.reservation(len(r.prompt_ids), r.budget_tokens) for r in asked]
    return sum(sorted(needs, reverse=True)[: limits.cap]) * limits.block_size


def _requests_table(
    requests: Sequence[Request],
    asked: Sequence[EngineRequest],
    served: ServeResult,
    engine: Engine,
    estimated: bool,
) -> pa.Table:
    rows = [
        request_row(*of_request, engine)
        for of_request in zip(requests, asked, served.requests, strict=True)
    ]
    for row, request, end in zip(rows, asked, served.requests, strict=True):
        told = (request.estimate if estimated else None, end.refined)
        row.update(zip(ESTIMATES, told, strict=True))
    return pa.Table.from_pylist(rows, schema=REQUESTS_SCHEMA)
