"""Figure 2: how much denoising work differs from request to request."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dwise_predict.experiments.experiment import Column, Experiment
from dwise_predict.experiments.plots import boxes
from dwise_predict.experiments.settings import Settings
from dwise_predict.experiments.study import Study, base_work
from dwise_predict.experiments.values import Value
from dwise_predict.experiments.work import Work

ROUNDS = "rounds"


def _work(settings: Settings) -> list[Work]:
    return base_work(settings, range(settings.seeds))


def _measure(study: Study) -> list[Value]:
    values = []
    for seed in study.seeds:
        examples = study.base(seed).examples
        groups = {"all requests": examples.rounds} | {
            str(name): examples.rounds[examples.category == name]
            for name in np.unique(examples.category)
        }
        for run, rounds in groups.items():
            p25, p50, p90 = np.percentile(rounds, [25, 50, 90])
            figures = {
                "p25": p25,
                "p50": p50,
                "p90": p90,
                "max": rounds.max(),
                "mean": rounds.mean(),
            }
            values += [Value("", run, name, seed, float(value)) for name, value in figures.items()]
            values += [Value("", run, ROUNDS, seed, float(count)) for count in rounds]
    return values


def _plot(values: Sequence[Value]) -> bytes:
    groups: dict[str, list[float]] = {}
    for value in values:
        if value.figure == ROUNDS:
            groups.setdefault(value.run, []).append(value.value)
    return boxes(groups, "denoising rounds")


EXPERIMENT = Experiment(
    name="heterogeneity",
    source="Figure 2",
    title="Denoising rounds by request",
    columns=tuple(Column(name, name) for name in ("p25", "p50", "p90", "max", "mean")),
    work=_work,
    measure=_measure,
    plot=_plot,
    differences="""\
All profiled requests are counted, those that were trained on, too. The embedded model's blocks
are half as long as LLaDA2.1-mini's, and most of its answers end by themselves long before the
budget, so a median request needs 7 rounds instead of 46. The spread that size-based scheduling
lives on is there all the same: the 90th percentile is four times the median (three times in the
paper), and requests of one category differ as much as those of several. The longest are
instructions and chats, as in the paper; code and mathematics are not as short.""",
)
