"""Draws the pictures of the documentation from real runs of the embedded model.

    make figures

Serves the same built-in prompts with the built-in engine and the bundle ``tiny``, all arriving at
once, first come first served with prefill priority (SGLang's default) and as DWISE does. Rounds are
the same on every machine, seconds are not.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dwise_predict import PredictorBundle
from dwise_predict.engines.loading import load_engine
from dwise_predict.engines.protocol import Engine, EngineRequest, ServeResult
from dwise_predict.evaluation import results_plots as plots
from dwise_predict.files import make_folder, write_bytes
from dwise_predict.recipe import load_recipe
from dwise_predict.results import Results
from dwise_predict.scheduling import (
    Event,
    Plan,
    ResidencyLimits,
    RoundCost,
    RoundProcessed,
    Scheduler,
)
from dwise_predict.serving import serve_workload
from dwise_predict.simulation.run import Arrivals, Setup
from dwise_predict.simulation.timeline import Timeline
from dwise_predict.workload.builtin import builtin_workload
from dwise_predict.workload.schema import Request

SETUPS = {
    "FCFS, prefill first": Setup("fcfs", "prefill_first"),
    "DWISE": Setup("dwise", "mixed_phase"),
}
SEED = 1
FEW, FEW_SLOTS, FEW_ROUNDS = 8, 3, 110
"""So few that every request has a letter, and rounds enough to see the first of them finish."""
WIDE = 90
"""Rounds of the large picture, from the one on in which a quarter of the requests is done."""


@dataclass
class Noting:
    """A scheduler that notes what every round processed."""

    scheduler: Any
    place: dict[str, int]
    timeline: Timeline

    def plan(self, now: float) -> Plan:
        """As the scheduler inside decides."""
        plan: Plan = self.scheduler.plan(now)
        return plan

    def observe(self, events: Iterable[Event]) -> None:
        """Note the blocks of the last round, then pass the events on."""
        events = list(events)
        for event in events:
            if isinstance(event, RoundProcessed):
                rows = [*event.prompt, *event.denoised]
                self.timeline.record(
                    [self.place[row] for row in rows],
                    [True] * len(event.prompt) + [False] * len(event.denoised),
                )
        self.scheduler.observe(events)


@dataclass
class Watched:
    """The built-in engine, with a note of every round."""

    engine: Any
    timeline: Timeline = field(default_factory=Timeline)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def serve(
        self, requests: Sequence[EngineRequest], scheduler: Scheduler, *more: Any, **named: Any
    ) -> ServeResult:
        """As the engine does."""
        place = {request.request_id: number for number, request in enumerate(requests)}
        noting = Noting(scheduler, place, self.timeline)
        served: ServeResult = self.engine.serve(requests, noting, *more, **named)
        return served


def serve(engine: Engine, requests: Sequence[Request], setup: Setup) -> tuple[Results, Timeline]:
    """Results and rounds of a burst of ``requests``."""
    recipe, watched = load_recipe("tiny"), Watched(engine)
    results = serve_workload(
        requests,
        watched,  # type: ignore[arg-type]
        setup,
        ResidencyLimits(engine.settings.slots, recipe.decoding.block_size),
        Arrivals("burst", np.zeros(len(requests))),
        recipe.decoding.budget_tokens,
        RoundCost(1.0, 0.0, 0.0),
        bundle=PredictorBundle.from_pretrained("tiny"),
    )
    return results, watched.timeline


def main() -> None:
    """Serve, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=512)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    flags = parser.parse_args()
    recipe = load_recipe("tiny")
    engine = load_engine(recipe)
    few = recipe.engine.model_copy(update={"slots": FEW_SLOTS})
    small = load_engine(recipe.model_copy(update={"engine": few}))
    requests = builtin_workload(0, flags.requests, seed=SEED)
    serve(engine, requests[:32], SETUPS["DWISE"])  # memory and kernels are set up once

    latencies, wide, narrow = [], [], []
    for label, setup in SETUPS.items():
        results, timeline = serve(engine, requests, setup)
        finished = results.requests["finished_s"].to_numpy()
        latencies.append((label, finished - results.requests["arrival_s"].to_numpy()))
        quarter = np.quantile(finished, 0.25)
        start = int(np.searchsorted(results.rounds["start_s"].to_numpy(), quarter))
        wide.append(plots.panel(label, timeline, engine.settings.slots, start, WIDE))
        took = results.summary.latency_s
        print(
            f"{label:20} {len(requests)} requests, {results.summary.rounds} rounds, "
            f"{results.summary.filled_slots:.1f} slots filled, latency mean {took.mean:.2f} s, "
            f"p50 {took.p50:.2f} s, p99 {took.p99:.2f} s, max {took.max:.2f} s"
        )
        results, timeline = serve(small, requests[:FEW], setup)
        narrow.append(plots.panel(label, timeline, FEW_SLOTS, 0, FEW_ROUNDS))
        ends = np.searchsorted(
            results.rounds["start_s"].to_numpy(), results.requests["finished_s"].to_numpy()
        )
        print(f"{'':20} {FEW} requests, {FEW_SLOTS} slots: finished after {ends.mean():.1f} rounds")
    make_folder(flags.out)
    write_bytes(flags.out / "latency-cdf.svg", plots.latency_cdf(latencies))
    write_bytes(flags.out / "rounds.svg", plots.round_timeline(wide))
    write_bytes(flags.out / "few-requests.svg", plots.round_timeline(narrow))


if __name__ == "__main__":
    main()
