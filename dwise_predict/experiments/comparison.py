"""Experiments that serve the same requests under several schedulers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dwise_predict.experiments.case import Case
from dwise_predict.experiments.experiment import Column, Experiment
from dwise_predict.experiments.plots import Plot
from dwise_predict.experiments.served import can_serve
from dwise_predict.experiments.settings import EngineName, Settings
from dwise_predict.experiments.study import Study, served_work
from dwise_predict.experiments.values import Value
from dwise_predict.experiments.work import Work


def comparison(
    name: str,
    source: str,
    title: str,
    cases: Sequence[Case],
    columns: tuple[Column, ...],
    plot: Plot,
    differences: str,
    one_seed: bool = False,
    label: Callable[[Case], str] = lambda case: case.run,
    not_with: Mapping[EngineName, str] | None = None,
) -> Experiment:
    """An experiment whose figures are those of ``cases``, each called ``label``.

    With ``one_seed`` only the first seed is served: sweeps take long and compare a scheduler with
    itself. Cases that the engine cannot serve are left out.
    """

    def seeds(settings: Settings) -> range:
        return range(1 if one_seed else settings.seeds)

    def possible(settings: Settings) -> list[Case]:
        return [case for case in cases if can_serve(settings, case)]

    def work(settings: Settings) -> list[Work]:
        return served_work(settings, seeds(settings), possible(settings))

    def measure(study: Study) -> list[Value]:
        return study.compare(possible(study.settings), seeds(study.settings), label)

    return Experiment(
        name, source, title, columns, work, measure, plot, differences, not_with or {}
    )
