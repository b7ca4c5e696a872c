"""Figure 11: what scheduling and predicting take."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dwise_predict.baselines.settings import Method
from dwise_predict.engines.protocol import EngineRequest, Refine, Refinement
from dwise_predict.engines.refinement import refine_with
from dwise_predict.experiments.base import base_of
from dwise_predict.experiments.case import POISSON, Case
from dwise_predict.experiments.engines import torch_engine
from dwise_predict.experiments.experiment import Column, Experiment
from dwise_predict.experiments.plots import bars
from dwise_predict.experiments.settings import Settings
from dwise_predict.experiments.study import Answer, Study, baselines_work, computed_work
from dwise_predict.experiments.timing import TIMED, median_ms
from dwise_predict.experiments.values import Value
from dwise_predict.experiments.work import Stage, Work
from dwise_predict.scheduling import (
    Event,
    Plan,
    ResidencyLimits,
    RoundCost,
    RoundScheduler,
)
from dwise_predict.serving import Told, serve_workload
from dwise_predict.simulation.run import Setup
from dwise_predict.workload.schema import Request, newline_count, word_count

ALL, MEDIAN_ROUND, ADMISSION = "all of DWISE", "median round", "DWISE at admission"
ENCODERS: tuple[Method, ...] = ("s3", "ssjf", "ltr")
"""Baselines that read the prompt once, at admission."""


class _TimedScheduler(RoundScheduler):
    """Keeps what its calls took, in seconds."""

    def __init__(self, inner: RoundScheduler) -> None:
        super().__init__(inner.policy, inner.former)
        self.planning: list[float] = []
        self.observing: list[float] = []

    def observe(self, events: Iterable[Event]) -> None:
        started = time.perf_counter()
        super().observe(events)
        self.observing.append(time.perf_counter() - started)

    def plan(self, now: float) -> Plan:
        started = time.perf_counter()
        plan = super().plan(now)
        self.planning.append(time.perf_counter() - started)
        return plan


@dataclass(frozen=True)
class _TimedSetup(Setup):
    """A setup whose schedulers are timed; they are kept in ``made``."""

    made: list[_TimedScheduler] = field(default_factory=list)

    def scheduler(
        self, limits: ResidencyLimits, cost: RoundCost, prefill_chunk: int | None = 1
    ) -> RoundScheduler:
        self.made.append(_TimedScheduler(super().scheduler(limits, cost, prefill_chunk)))
        return self.made[-1]


class _TimedRefine:
    def __init__(self, refine: Refine) -> None:
        self.refine = refine
        self.spent: list[float] = []

    def __call__(
        self, hidden_means: npt.NDArray[np.float16], requests: Sequence[EngineRequest]
    ) -> Sequence[Refinement]:
        started = time.perf_counter()
        answers = self.refine(hidden_means, requests)
        self.spent.append(time.perf_counter() - started)
        return answers


def measure_rounds(settings: Settings, seed: int) -> Answer:
    """Means over the rounds of one served run; the refiner's over those that refine too."""
    base, recipe, case = base_of(settings, seed), settings.recipe_of(seed), Case("DWISE", POISSON)
    engine, asked = torch_engine(recipe), base.asked()
    setup = _TimedSetup(case.scheduling.setup.policy, case.scheduling.setup.former)
    refine = _TimedRefine(refine_with(base.bundle.refiner))
    results = serve_workload(
        asked.requests,
        engine,
        setup,
        ResidencyLimits(recipe.engine.slots, recipe.decoding.block_size, case.multiplier),
        base.arrivals(case.arrival, case.load, case.order, len(asked)),
        recipe.decoding.budget_tokens,
        base.cost,
        told=Told(base.admission(asked), refine),
    )
    wall_ms = results.rounds["wall_ms"].to_numpy()
    (scheduler,) = setup.made
    rounds = len(wall_ms)
    spent = {
        "planning": 1e3 * sum(scheduler.planning) / rounds,
        "taking in what happened": 1e3 * sum(scheduler.observing) / rounds,
        "refinement": 1e3 * sum(refine.spent) / rounds,
    }
    # Refining happens inside the measured rounds, the rest between them.
    whole = float(wall_ms.mean()) + spent["planning"] + spent["taking in what happened"]
    found: Answer = {name: {"round_ms": value} for name, value in spent.items()}
    found[ALL] = {"round_ms": sum(spent.values()), "round_pct": 100 * sum(spent.values()) / whole}
    found[MEDIAN_ROUND] = {"round_ms": float(np.median(wall_ms))}
    return found


def measure_admission(settings: Settings, seed: int) -> Answer:
    """Median time from the text of a prompt to its estimate, one prompt at a time."""
    base = base_of(settings, seed)
    admission, encode = base.bundle.admission, torch_engine(settings.recipe_of(seed)).encode
    requests = base.asked().requests[:TIMED]

    def ours(request: Request) -> float:
        tokens = encode(request.messages)
        return admission.rounds(
            words=word_count(request.text),
            newlines=newline_count(request.text),
            prompt_tokens=len(tokens),
            token_ids=tokens,
        )

    found: Answer = {ADMISSION: {"request_ms": median_ms(ours, requests)}}
    for method in ENCODERS:
        predict = base.baselines[method].admission
        spent = median_ms(predict, [[request.text] for request in requests])
        found[method.upper()] = {"request_ms": spent}
    return found


PARTS = {"overhead-rounds": measure_rounds, "overhead-admission": measure_admission}


def _work(settings: Settings) -> list[Work]:
    work = baselines_work(settings, [0])
    for name, function in PARTS.items():
        work += computed_work(settings, name, [0], function, Stage.ALONE)
    return work


def _measure(study: Study) -> list[Value]:
    return [value for name in PARTS for value in study.answers(name, [0])]


EXPERIMENT = Experiment(
    name="overhead",
    source="Figure 11",
    title="What scheduling and predicting take",
    columns=(
        Column("round_ms", "ms a round", ".3f"),
        Column("round_pct", "of a round (%)", ".1f"),
        Column("request_ms", "ms a request", ".3f"),
    ),
    work=_work,
    measure=_measure,
    plot=bars("round_ms", "ms a round", log=True),
    differences="""\
Planning 32 slots with 256 residents takes less than a tenth of what 128 slots and 1,024 residents
take in the paper; *planning* includes what it calls reordering. Refinement takes most of the rest,
a larger share than planning, unlike in the paper: it runs on the same CPU thread as the model
instead of on a GPU. Against a round, all together is a little less than in the paper. At admission
the distance to the baselines is hundreds of times, not the paper's 9 to 18: the tiny model's
tokenizer is quick, LightGBM's trees are a table lookup ([predictors](predictors.md)), and the
encoders, here MiniLM and not BERT, run on one CPU thread ([baselines](../baselines.md#time)).""",
    not_with={
        "sglang": "benchmarks/bench_sglang_planning.py measures the plugin",
        "simulator": "a replay takes no time that an engine would",
    },
)
