"""One workload under one scheduler, as results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from pydantic import FiniteFloat, PositiveInt, Strict, TypeAdapter, ValidationError

from dwise_predict.errors import SimulationError
from dwise_predict.results import Conditions, Results, requests_table, summarise
from dwise_predict.results.records import ESTIMATES, ROUNDS_SCHEMA, TIMES
from dwise_predict.scheduling import (
    FormerName,
    LeanFill,
    ResidencyLimits,
    RoundCost,
    RoundScheduler,
    build_scheduler,
    make_policy,
)
from dwise_predict.simulation.estimates import TARGETS, Predictor
from dwise_predict.simulation.limits import check_arrivals, check_cost, check_size
from dwise_predict.simulation.predictions import Predictions
from dwise_predict.simulation.replay import Replay, replay
from dwise_predict.simulation.sources.source import Source
from dwise_predict.simulation.timeline import Timeline
from dwise_predict.simulation.workload import FloatArray, SimulatedWorkload

ENGINE = "simulator"
HYSTERESIS, LEAN, HELD_ROWS = "hysteresis", "lean", "held_rows"
_Count = Annotated[PositiveInt, Strict()]
_Number = Annotated[FiniteFloat, Strict()]


@dataclass(frozen=True)
class Setup:
    """A policy on a batch former.

    ``options`` are the policy's, and the former's: ``hysteresis`` and ``lean``, the factor of
    :class:`~dwise_predict.scheduling.LeanFill` (formers that rank), and ``held_rows``
    (``prefill_first``), see :func:`~dwise_predict.scheduling.build_scheduler`.
    """

    policy: str
    former: FormerName
    options: Mapping[str, object] = field(default_factory=dict)

    def scheduler(
        self, limits: ResidencyLimits, cost: RoundCost, prefill_chunk: int | None = 1
    ) -> RoundScheduler:
        """A fresh scheduler.

        ``cost`` is for policies that rank by time and are given no model of their own,
        ``prefill_chunk`` how many blocks of a prompt the engine processes together (None: all).
        Raises SimulationError when an option does not exist or cannot be.
        """
        options = dict(self.options)
        by_time = options.get("unit") == "time"
        hysteresis: float = _value(_Number, options, HYSTERESIS, 0.0)
        held_rows: bool = _value(Annotated[bool, Strict()], options, HELD_ROWS, False)
        factor: float | None = _value(_Number | None, options, LEAN, None)
        if prefill_chunk is None and (by_time or factor is not None):
            raise SimulationError(
                f"{'unit=time' if by_time else LEAN} needs chunks of one size, which whole prompts "
                "do not have: give --prefill-chunk N"
            )
        if self.former == "prefill_first" and (hysteresis or factor is not None):
            raise SimulationError(
                "hysteresis and lean are for the formers mixed_phase and single_phase"
            )
        if held_rows and self.former != "prefill_first":
            raise SimulationError("held_rows is for the former prefill_first")
        if by_time:
            told = {
                "cost": cost,
                "block_size": _value(_Count, options, "block_size", limits.block_size),
                "prefill_chunk": _value(_Count, options, "prefill_chunk", prefill_chunk),
            }
            options = told | options
        try:
            policy = make_policy(self.policy, options)
            lean = None
            if factor is not None and prefill_chunk is not None:
                lean = LeanFill(cost, limits.block_size, factor, prefill_chunk)
            return build_scheduler(policy, self.former, limits, hysteresis, held_rows, lean)
        except ValueError as error:
            raise SimulationError(str(error)) from error

    @property
    def reads_curves(self) -> bool:
        """Whether the policy follows mean residuals."""
        return self.options.get("estimate") == "residual"


@dataclass(frozen=True)
class Arrivals:
    """The pattern's name, and arrivals in seconds, float64 [N]."""

    pattern: str
    seconds: FloatArray


def simulate(
    source: Source,
    arrivals: Arrivals,
    setup: Setup,
    limits: ResidencyLimits,
    cost: RoundCost,
    predictor: Predictor,
    prefill_chunk: int | None = 1,
    timeline: Timeline | None = None,
    on_finished: Callable[[int], None] | None = None,
) -> Results:
    """Replay ``source`` under ``setup``.

    Args:
        source: N requests.
        arrivals: of these.
        setup: which scheduler.
        limits: slots, residents and KV.
        cost: of a round.
        predictor: what the policy is told; not asked by policies that need no estimate.
        prefill_chunk: blocks of a prompt that are processed together; None: whole prompts.
        timeline: records what each slot of each round holds.
        on_finished: told how many requests have finished.

    Raises:
        SimulationError: the setup is impossible, the predictor cannot serve the policy, a
            request's KV reservation fits no pool of that size, or the requests or the cost are
            beyond what can be simulated (:mod:`dwise_predict.simulation.limits`).
    """
    workload = source.workload(prefill_chunk)
    check_workload(workload, limits)
    check_cost(cost)
    check_arrivals(float(arrivals.seconds.max()))
    scheduler = setup.scheduler(limits, cost, prefill_chunk)
    target = TARGETS[setup.policy]
    predictions = predictor.predict(workload, target)
    replayed = replay(
        workload,
        arrivals.seconds,
        predictions,
        scheduler,
        cost,
        on_finished,
        None if timeline is None else timeline.record,
    )
    requests = requests_table(
        source.facts,
        {name: getattr(replayed, name) for name in TIMES},
        {} if target == "nothing" else _estimates(workload, predictions),
    )
    rounds = _rounds_table(replayed)
    conditions = Conditions(
        policy=setup.policy,
        former=setup.former,
        engine=ENGINE,
        arrival=arrivals.pattern,
        slots=limits.slots,
        preemptions=replayed.counters.preemptions,
        # The scheduler counts rounds down, which says nothing of an estimate in tokens.
        reached_zero=replayed.counters.reached_zero if target == "rounds" else 0,
        blocked_by_cap=replayed.counters.blocked_by_cap,
    )
    return Results(requests, rounds, summarise(requests, rounds, conditions))


def check_workload(workload: SimulatedWorkload, limits: ResidencyLimits) -> None:
    """Raise SimulationError when it is too large, or a request could never become resident."""
    work = (workload.prefill_rounds + workload.rounds).tolist()
    check_size(workload.request_ids, work, limits.slots)
    needs = [
        limits.reservation(prompt, budget)
        for prompt, budget in zip(
            workload.prompt_tokens.tolist(), workload.budget_tokens.tolist(), strict=True
        )
    ]
    largest = max(needs)
    if largest > limits.pool_blocks:
        raise SimulationError(
            f"request {workload.request_ids[needs.index(largest)]!r} reserves {largest} blocks of "
            f"{limits.block_size} tokens; of {limits.kv_tokens} KV tokens only "
            f"{limits.pool_blocks} blocks can be reserved: give more --kv-tokens"
        )


def _value(kind: Any, options: dict[str, object], name: str, default: object) -> Any:
    try:
        return TypeAdapter(kind).validate_python(options.pop(name, default))
    except ValidationError as error:
        raise SimulationError(f"option {name}: {error.errors()[0]['msg']}") from error


def _estimates(workload: SimulatedWorkload, predictions: Predictions) -> dict[str, FloatArray]:
    """Columns of what the policy was told."""
    columns = {ESTIMATES[0]: predictions.admission}
    if predictions.refined is not None:
        # A request that ends in its first round is never refined.
        columns[ESTIMATES[1]] = np.where(workload.rounds > 1, predictions.refined, np.nan)
    return columns


def _rounds_table(replayed: Replay) -> pa.Table:
    columns = {
        "index": np.arange(len(replayed.slots)),
        "start_s": replayed.round_start_s,
        "wall_ms": replayed.round_ms,
        "slots": replayed.slots,
        "prefill_slots": replayed.prefill_slots,
        "kv_tokens": replayed.kv_tokens,
        "residents": replayed.residents,
        "waiting": replayed.waiting,
    }
    arrays = [pa.array(columns[field.name], field.type) for field in ROUNDS_SCHEMA]
    return pa.Table.from_arrays(arrays, schema=ROUNDS_SCHEMA)
