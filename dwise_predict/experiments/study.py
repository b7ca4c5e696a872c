"""What an experiment needs done, and what it reads once that is done."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dwise_predict.baselines import BASELINES_FOLDER, METHODS
from dwise_predict.experiments.base import Base, base_of, make_base
from dwise_predict.experiments.case import Case, Estimates
from dwise_predict.experiments.estimates import REPEATED, train_baselines
from dwise_predict.experiments.measures import SPEEDUPS, measures
from dwise_predict.experiments.recordings import (
    PROMPTS_FILE,
    ROUNDS_MARK,
    record_every_round,
    record_prompts,
)
from dwise_predict.experiments.served import results_place, serve_case
from dwise_predict.experiments.settings import Settings
from dwise_predict.experiments.values import Value
from dwise_predict.experiments.work import Stage, Work
from dwise_predict.files import write_text
from dwise_predict.results import Results, read_results

Compute = Callable[[Settings, int], Any]
"""Something about one seed, as what JSON can hold."""


def base_work(settings: Settings, seeds: Iterable[int], budget: int | None = None) -> list[Work]:
    """A profile and predictors for each seed."""
    folders = {seed: settings.base(seed, budget) for seed in seeds}
    return [
        Work(
            Stage.BASE,
            # The last thing that a training run writes.
            str(folder.report.relative_to(settings.out)),
            make_base,
            (seed, budget),
        )
        for seed, folder in folders.items()
    ]


def prompts_work(settings: Settings, seeds: Iterable[int]) -> list[Work]:
    """Hidden means of the prompts for each seed, with what that needs."""
    return _recorded_work(settings, seeds, PROMPTS_FILE, record_prompts)


def rounds_work(settings: Settings, seeds: Iterable[int]) -> list[Work]:
    """Hidden means of every round for each seed, with what that needs."""
    return _recorded_work(settings, seeds, ROUNDS_MARK, record_every_round)


def baselines_work(settings: Settings, seeds: Iterable[int]) -> list[Work]:
    """All learned baselines for each seed, with what they need."""
    work = rounds_work(settings, seeds := list(seeds))
    for seed in seeds:
        # The last that is trained.
        place = settings.base(seed).path / BASELINES_FOLDER / METHODS[-1]
        where = str(place.relative_to(settings.out))
        work.append(Work(Stage.TRAINED, where, train_baselines, (seed,)))
    return work


def _recorded_work(
    settings: Settings, seeds: Iterable[int], place: str, function: Callable[..., None]
) -> list[Work]:
    work = base_work(settings, seeds := list(seeds))
    for seed in seeds:
        where = str((settings.base(seed).path / place).relative_to(settings.out))
        work.append(Work(Stage.RECORDED, where, function, (seed,)))
    return work


def served_work(settings: Settings, seeds: Iterable[int], cases: Sequence[Case]) -> list[Work]:
    """All cases for each seed, with what they need."""
    work = []
    for seed in seeds:
        for case in cases:
            work += base_work(settings, [seed], case.budget)
            work += _estimates_work(settings, seed, case.scheduling.estimates)
            alone = case.threads is not None or settings.engine == "sglang"
            stage = Stage.ALONE if alone else Stage.SERVED
            work.append(Work(stage, results_place(settings, seed, case), serve_case, (seed, case)))
    return work


def _estimates_work(settings: Settings, seed: int, kind: Estimates) -> list[Work]:
    if kind in METHODS:
        return baselines_work(settings, [seed])
    if kind in REPEATED and settings.engine == "simulator":
        return rounds_work(settings, [seed])
    return []


def computed_work(
    settings: Settings,
    name: str,
    seeds: Iterable[int],
    function: Compute,
    stage: Stage = Stage.SERVED,
    own_engine: bool = False,
) -> list[Work]:
    """``function`` for each seed; its answer is kept under ``name``.

    Answers that depend on the engine (``own_engine``) are kept for each of them.
    """
    return [
        Work(
            stage,
            _place(settings, name, seed, own_engine),
            _compute,
            (function, name, seed, own_engine),
        )
        for seed in seeds
    ]


def _place(settings: Settings, name: str, seed: int, own_engine: bool) -> str:
    folder = settings.engine if own_engine else "base"
    return f"{folder}/computed/seed-{seed}/{name}.json"


def _compute(settings: Settings, function: Compute, name: str, seed: int, own_engine: bool) -> None:
    text = json.dumps(function(settings, seed), indent=1)
    write_text(settings.out / _place(settings, name, seed, own_engine), text + "\n")


class Study:
    """Finished work of one invocation."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @property
    def seeds(self) -> range:
        """Every seed."""
        return range(self.settings.seeds)

    def base(self, seed: int, budget: int | None = None) -> Base:
        """Profile and predictors."""
        return base_of(self.settings, seed, budget)

    def results(self, seed: int, case: Case) -> Results:
        """What serving a case came to."""
        return read_results(self.settings.out / results_place(self.settings, seed, case))

    def computed(self, name: str, seed: int, own_engine: bool = False) -> Any:
        """What :func:`computed_work` kept."""
        path = self.settings.out / _place(self.settings, name, seed, own_engine)
        return json.loads(path.read_text("utf-8"))

    def compare(
        self,
        cases: Sequence[Case],
        seeds: Iterable[int] | None = None,
        label: Callable[[Case], str] = lambda case: case.run,
    ) -> list[Value]:
        """Every figure of every case and seed.

        Speedups are over the SGLang case with the same seed and the same all else, where it is
        among ``cases``.
        """
        values = []
        for seed in self.seeds if seeds is None else seeds:
            found = {case: measures(self.results(seed, case)) for case in cases}
            for case, figures in found.items():
                stock = _stock_of(case, cases)
                if stock is not None:
                    figures = figures | {
                        name: found[stock][latency] / figures[latency]
                        for name, latency in SPEEDUPS.items()
                    }
                values += [
                    Value(case.arrival, label(case), figure, seed, value)
                    for figure, value in figures.items()
                ]
        return values


def _stock_of(case: Case, cases: Sequence[Case]) -> Case | None:
    """SGLang's own scheduling under what a case is served under; its residents are its own."""
    circumstances = ("arrival", "load", "order", "repeat", "budget", "threads")
    return next(
        (
            other
            for other in cases
            if other.run == "SGLang"
            and all(getattr(other, name) == getattr(case, name) for name in circumstances)
        ),
        None,
    )
