"""What all experiments of one invocation have in common."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from dwise_predict.recipe import Recipe
from dwise_predict.run_folder import RunFolder

EngineName = Literal["simulator", "torch", "sglang"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)

RATE_FACTOR = 4.1
"""Arrival rate of burst+Poisson over what the profile's FCFS run served: the paper's 16 requests/s
against SGLang's 3.9."""
MULTIPLIER = 8
"""k of the paper: at most k times as many residents as slots."""


@dataclass(frozen=True)
class Settings:
    """What is run and where.

    Attributes:
        engine: who serves: the simulator replays profiled rounds, the others run the model.
        recipe: the model, its decoding, workload and predictors; each seed replaces its own.
        seeds: workloads drawn, each with a profile and predictors of its own: seeds 0 to
            ``seeds - 1``.
        out: folder of everything.
        workers: processes at the same time.
    """

    engine: EngineName
    recipe: Recipe
    seeds: int
    out: Path
    workers: int

    def recipe_of(self, seed: int, budget: int | None = None) -> Recipe:
        """The recipe of one seed, with another output budget where given."""
        recipe = self.recipe.model_copy(update={"seed": seed})
        if budget is None:
            return recipe
        decoding = recipe.decoding.model_copy(update={"budget_tokens": budget})
        return recipe.model_copy(update={"decoding": decoding})

    def base(self, seed: int, budget: int | None = None) -> RunFolder:
        """Profile and bundle of one seed."""
        name = f"seed-{seed}" if budget is None else f"seed-{seed}-budget-{budget}"
        return RunFolder(self.out / "base" / name)

    def of(self, experiment: str) -> Path:
        """Results of one experiment."""
        return self.out / self.engine / experiment
