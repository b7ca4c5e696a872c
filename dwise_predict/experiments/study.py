"""What an experiment needs done, and what it reads once that is done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pydantic import TypeAdapter, ValidationError

from dwise_predict.baselines import BASELINES_FOLDER, METHODS, ROUNDS_FOLDER
from dwise_predict.errors import ExperimentError, ResultsError
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

Answer = dict[str, dict[str, float | None]]
"""Figures by run and name; None where one is not defined."""
Compute = Callable[[Settings, int], Answer]
"""Something about one seed."""
_ANSWER = TypeAdapter(Answer)


def base_work(settings: Settings, seeds: Iterable[int], budget: int | None = None) -> list[Work]:
    """A profile and predictors for each seed."""
    work = []
    for seed in seeds:
        folder = settings.base(seed, budget)
        kept = (folder.recipe, folder.workload, folder.profile, folder.bundle, folder.predictions)
        # The report is the last thing that a training run writes.
        place, *parts = (str(path.relative_to(settings.out)) for path in (folder.report, *kept))
        work.append(Work(Stage.BASE, place, make_base, (seed, budget), tuple(parts)))
    return work


def prompts_work(settings: Settings, seeds: Iterable[int]) -> list[Work]:
    """Hidden means of the prompts for each seed, with what that needs."""
    return _recorded_work(settings, seeds, PROMPTS_FILE, record_prompts)


def rounds_work(settings: Settings, seeds: Iterable[int]) -> list[Work]:
    """Hidden means of every round for each seed, with what that needs."""
    return _recorded_work(settings, seeds, ROUNDS_MARK, record_every_round, ROUNDS_FOLDER)


def baselines_work(settings: Settings, seeds: Iterable[int]) -> list[Work]:
    """All learned baselines for each seed, with what they need."""
    work = rounds_work(settings, seeds := list(seeds))
    for seed in seeds:
        folder = (settings.base(seed).path / BASELINES_FOLDER).relative_to(settings.out)
        *parts, last = (str(folder / method) for method in METHODS)
        work.append(Work(Stage.TRAINED, last, train_baselines, (seed,), tuple(parts)))
    return work


def _recorded_work(
    settings: Settings,
    seeds: Iterable[int],
    name: str,
    function: Callable[..., None],
    *parts: str,
) -> list[Work]:
    work = base_work(settings, seeds := list(seeds))
    for seed in seeds:
        folder = settings.base(seed).path.relative_to(settings.out)
        place, *rest = (str(folder / part) for part in (name, *parts))
        work.append(Work(Stage.RECORDED, place, function, (seed,), tuple(rest)))
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
) -> list[Work]:
    """``function`` for each seed; its answer is kept under ``name``, for every engine."""
    return [Work(stage, _place(name, seed), _compute, (function, name, seed)) for seed in seeds]


def _place(name: str, seed: int) -> str:
    return f"base/computed/seed-{seed}/{name}.json"


def _compute(settings: Settings, function: Compute, name: str, seed: int) -> None:
    text = _ANSWER.dump_json(function(settings, seed), indent=1).decode()
    write_text(settings.out / _place(name, seed), text + "\n")


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
        """What serving a case came to. Raises ExperimentError when it is damaged."""
        place = self.settings.out / results_place(self.settings, seed, case)
        try:
            return read_results(place)
        except ResultsError as error:
            raise ExperimentError(
                f"{error}: delete the folder {place} and run the same command again"
            ) from error

    def answers(self, name: str, seeds: Iterable[int]) -> list[Value]:
        """What :func:`computed_work` kept, without what is not defined.

        Raises ExperimentError when it is damaged.
        """
        return [
            Value("", run, figure, seed, value)
            for seed in seeds
            for run, figures in self._answer(name, seed).items()
            for figure, value in figures.items()
            if value is not None
        ]

    def _answer(self, name: str, seed: int) -> Answer:
        path = self.settings.out / _place(name, seed)
        try:
            return _ANSWER.validate_json(path.read_bytes())
        except ValidationError as error:
            raise ExperimentError(
                f"{path} is damaged: delete it and run the same command again"
            ) from error

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
