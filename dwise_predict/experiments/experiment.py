"""What makes an experiment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dwise_predict.experiments.settings import EngineName, Settings
from dwise_predict.experiments.study import Study
from dwise_predict.experiments.values import Value
from dwise_predict.experiments.work import Work


@dataclass(frozen=True, slots=True)
class Column:
    """A figure of the table.

    ``digits`` is a format of numbers. ``paper`` says whether the paper's figure stands beside it,
    ``spread`` whether its standard deviation over seeds does.
    """

    figure: str
    title: str
    digits: str = ".3g"
    paper: bool = True
    spread: bool = True


@dataclass(frozen=True)
class Experiment:
    """One of the paper's tables or figures.

    Attributes:
        name: of the command.
        source: table or figure of the paper.
        title: what it shows.
        columns: of its table; rows are the arrivals and runs of the values.
        work: what has to be done first.
        measure: the figures, from finished work.
        plot: the picture, an SVG file.
        differences: why ours are not the paper's figures.
        not_with: why it cannot be run with an engine.
    """

    name: str
    source: str
    title: str
    columns: tuple[Column, ...]
    work: Callable[[Settings], list[Work]]
    measure: Callable[[Study], list[Value]]
    plot: Callable[[Sequence[Value]], bytes]
    differences: str
    not_with: Mapping[EngineName, str] = field(default_factory=dict)
