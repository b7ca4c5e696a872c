"""Table 11: whether a request needs the same rounds when it is served again."""

from __future__ import annotations

import numpy as np

from dwise_predict.experiments.case import BURST, Case
from dwise_predict.experiments.experiment import Column, Experiment
from dwise_predict.experiments.plots import bars
from dwise_predict.experiments.settings import Settings
from dwise_predict.experiments.study import Study, served_work
from dwise_predict.experiments.values import Value
from dwise_predict.experiments.work import Work
from dwise_predict.rank import spearman
from dwise_predict.simulation.workload import IntArray

PAIRS = {
    "DWISE, same trace": (Case("DWISE", BURST), Case("DWISE", BURST, repeat=1)),
    "DWISE, different traces": (Case("DWISE", BURST), Case("DWISE", BURST, order=1)),
    "SGLang, different traces": (Case("SGLang", BURST), Case("SGLang", BURST, order=1)),
}


def _work(settings: Settings) -> list[Work]:
    return served_work(settings, [0], [case for pair in PAIRS.values() for case in pair])


def _measure(study: Study) -> list[Value]:
    values = []
    for run, pair in PAIRS.items():
        first, second = (_rounds(study, case) for case in pair)
        figures = {
            "identical_pct": 100 * float((first == second).mean()),
            "spearman": spearman(first, second) or 0.0,
        }
        values += [Value(BURST, run, name, 0, value) for name, value in figures.items()]
    return values


def _rounds(study: Study, case: Case) -> IntArray:
    """Rounds of every evaluation request, in the order of the profile."""
    served = study.results(0, case).requests["rounds"].to_numpy()
    rounds: IntArray = np.empty_like(served)
    rounds[study.base(0).asked(case.order).rows] = served
    return rounds


EXPERIMENT = Experiment(
    name="repeatability",
    source="Table 11",
    title="Rounds of the same request, served again",
    columns=(
        Column("identical_pct", "identical (%)", ".1f"),
        Column("spearman", "Spearman", ".3f"),
    ),
    work=_work,
    measure=_measure,
    plot=bars("identical_pct", "requests with the same rounds (%)"),
    differences="""\
The built-in engine gives a request the same tokens and rounds whatever shares its rounds: one
thread computes in float32, and sums in an order that does not depend on the batch closely enough
that no decision changes (`tests/e2e/engines` holds it to that). The paper's differences come
from bfloat16 on a GPU, whose kernels add in another order for other batch sizes. For a server of
your own, `dwise train --repeats N` measures it.""",
    not_with={"simulator": "it replays profiled rounds, which are the same every time"},
)
