"""Serves cases and keeps their results; experiments share what they have in common."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dwise_predict.experiments.base import Asked, Base, base_of
from dwise_predict.experiments.case import Case
from dwise_predict.experiments.engines import torch_engine
from dwise_predict.experiments.estimates import predictions, setup_of, told
from dwise_predict.experiments.settings import Settings
from dwise_predict.experiments.sglang_server import SERVED, serve_by_sglang
from dwise_predict.results import Results, write_results
from dwise_predict.scheduling import ResidencyLimits
from dwise_predict.serving import serve_workload
from dwise_predict.simulation.estimates import Target
from dwise_predict.simulation.predictions import Predictions
from dwise_predict.simulation.run import Arrivals, simulate
from dwise_predict.simulation.workload import SimulatedWorkload


def results_place(settings: Settings, seed: int, case: Case) -> str:
    """Where the results of a case lie under the settings' folder."""
    return f"{settings.engine}/served/seed-{seed}/{case.name}"


def can_serve(settings: Settings, case: Case) -> bool:
    """Whether the engine has the case's scheduler and what it is told."""
    if settings.engine == "sglang":
        return case.run in SERVED and case.threads is None and case.budget is None
    return settings.engine == "torch" or case.threads is None


def serve_case(settings: Settings, seed: int, case: Case) -> None:
    """Serve the evaluation requests of ``seed`` as ``case`` says, and write the results folder."""
    base = base_of(settings, seed, case.budget)
    asked = base.asked(case.order)
    arrivals = base.arrivals(case.arrival, case.load, case.order, len(asked))
    run = {"simulator": _simulated, "torch": _by_torch, "sglang": serve_by_sglang}[settings.engine]
    place: Path = settings.out / results_place(settings, seed, case)
    write_results(place, run(settings, base, case, asked, arrivals))


def _limits(settings: Settings, base: Base, case: Case) -> ResidencyLimits:
    slots, block_size = settings.recipe.engine.slots, base.profile.run.fingerprint.block_size
    return ResidencyLimits(slots, block_size, multiplier=case.multiplier)


def _simulated(
    settings: Settings, base: Base, case: Case, asked: Asked, arrivals: Arrivals
) -> Results:
    return simulate(
        asked.source,
        arrivals,
        setup_of(settings, base.seed, case),
        _limits(settings, base, case),
        base.cost,
        _Prepared(case.run, predictions(settings, base.seed, case, asked)),
    )


def _by_torch(
    settings: Settings, base: Base, case: Case, asked: Asked, arrivals: Arrivals
) -> Results:
    recipe = settings.recipe_of(base.seed, case.budget)
    return serve_workload(
        asked.requests,
        torch_engine(recipe, case.threads),
        setup_of(settings, base.seed, case),
        _limits(settings, base, case),
        arrivals,
        recipe.decoding.budget_tokens,
        base.cost,
        told=told(settings, base.seed, case, asked),
    )


@dataclass(frozen=True)
class _Prepared:
    """Estimates that were made before."""

    name: str
    estimates: Predictions

    def predict(self, workload: SimulatedWorkload, target: Target) -> Predictions:
        return self.estimates
