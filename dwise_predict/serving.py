"""A workload served by an engine under any policy, with the results that a simulation has too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace

import numpy as np
import pyarrow as pa

from dwise_predict.bundle import PredictorBundle
from dwise_predict.engines.protocol import Engine, EngineRequest, ServedRequest, ServeResult
from dwise_predict.engines.recording import engine_request, request_row
from dwise_predict.engines.refinement import refine_with
from dwise_predict.errors import EngineError
from dwise_predict.results import Conditions, Results, summarise
from dwise_predict.results.records import ESTIMATES, REQUESTS_SCHEMA, ROUNDS_SCHEMA
from dwise_predict.scheduling import ResidencyLimits, RoundCost
from dwise_predict.simulation.estimates import TARGETS
from dwise_predict.simulation.run import Arrivals, Setup
from dwise_predict.workload.schema import Request, newline_count, word_count


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

    Raises:
        EngineError: the engine cannot serve a request, or ``bundle`` cannot serve the policy.
        SimulationError: the setup is impossible.
        IncompatibleBundleError: the bundle is of another model or decoding.
    """
    target = TARGETS[setup.policy]
    if target not in ("nothing", "rounds"):
        raise EngineError(
            f"policy {setup.policy} ranks by output tokens, which bundles do not predict"
        )
    asked = [
        engine_request(request, engine, budget_tokens, arrival_s)
        for request, arrival_s in zip(requests, arrivals.seconds.tolist(), strict=True)
    ]
    refine = None
    if target == "rounds":
        if bundle is None:
            raise EngineError(f"policy {setup.policy} ranks by predicted rounds: give a bundle")
        bundle.require(engine.fingerprint)
        asked = _estimated(asked, requests, bundle)
        refine = refine_with(bundle.refiner, residuals=setup.reads_curves)
    scheduler = setup.scheduler(limits, cost)
    served = engine.serve(
        asked,
        scheduler,
        on_finished,
        kv_tokens=_cache_tokens(asked, scheduler.former.limits),
        refine=refine,
    )
    told = None if target == "nothing" else [request.estimate for request in asked]
    table = _requests_table(requests, asked, served, engine, told)
    rounds = pa.Table.from_pylist([asdict(r) for r in served.rounds], schema=ROUNDS_SCHEMA)
    conditions = Conditions(
        policy=setup.policy,
        former=setup.former,
        engine=engine.settings.name,
        arrival=arrivals.pattern,
        slots=limits.slots,
        preemptions=scheduler.counters.preemptions,
        reached_zero=scheduler.counters.reached_zero,
    )
    return Results(table, rounds, summarise(table, rounds, conditions))


def _estimated(
    asked: Sequence[EngineRequest], requests: Sequence[Request], bundle: PredictorBundle
) -> list[EngineRequest]:
    texts = [request.text for request in requests]
    estimates = bundle.admission.rounds_batch(
        np.array([word_count(text) for text in texts]),
        np.array([newline_count(text) for text in texts]),
        np.array([len(request.prompt_ids) for request in asked]),
        [request.prompt_ids for request in asked],
    )
    return [
        replace(request, estimate=estimate)
        for request, estimate in zip(asked, estimates.tolist(), strict=True)
    ]


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
    told: Sequence[float] | None,
) -> pa.Table:
    rows = [
        request_row(*of_request, engine)
        for of_request in zip(requests, asked, served.requests, strict=True)
    ]
    admission: Sequence[float | None] = told or [None] * len(rows)
    refined = [request.refined for request in served.requests]
    for row, *estimates in zip(rows, admission, refined, strict=True):
        row.update(zip(ESTIMATES, estimates, strict=True))
    return pa.Table.from_pylist(rows, schema=REQUESTS_SCHEMA)
