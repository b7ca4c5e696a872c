"""Table 13: more processors for the model, as far as CPUs go."""

from __future__ import annotations

from dwise_predict.experiments.case import ARRIVALS, Case
from dwise_predict.experiments.experiment import Column, Experiment
from dwise_predict.experiments.measures import MEAN, SPEEDUP, measures
from dwise_predict.experiments.plots import bars
from dwise_predict.experiments.settings import Settings
from dwise_predict.experiments.study import Study, served_work
from dwise_predict.experiments.values import Value
from dwise_predict.experiments.work import Work

PLACES = {1: "1 thread (paper: 1 GPU)", 2: "2 threads (paper: TP=2)"}
CASES = [
    Case(run, arrival, threads=threads)
    for arrival in ARRIVALS
    for threads in PLACES
    for run in ("SGLang", "DWISE")
]


def _work(settings: Settings) -> list[Work]:
    return served_work(settings, [0], CASES)


def _measure(study: Study) -> list[Value]:
    values = []
    for arrival in ARRIVALS:
        for threads, place in PLACES.items():
            stock, ours = (
                measures(study.results(0, Case(run, arrival, threads=threads)))[MEAN]
                for run in ("SGLang", "DWISE")
            )
            figures = {"sglang_mean_s": stock, "dwise_mean_s": ours, SPEEDUP: stock / ours}
            values += [Value(arrival, place, name, 0, value) for name, value in figures.items()]
    return values


EXPERIMENT = Experiment(
    name="parallelism",
    source="Table 13",
    title="More processors for the model",
    columns=(
        Column("sglang_mean_s", "SGLang mean (s)", ".4g"),
        Column("dwise_mean_s", "DWISE mean (s)", ".4g"),
        Column(SPEEDUP, "mean ×", ".2f"),
    ),
    work=_work,
    measure=_measure,
    plot=bars(SPEEDUP, "mean latency, times faster than SGLang"),
    differences="""\
Threads stand in for GPUs: no CPU engine here runs tensor parallelism fast enough to be measured.
As in the paper, DWISE's latency is the same with a second one, SGLang's falls (there by a tenth,
here by a fifth to a third), and DWISE stays ahead by less. Two threads need both cores of the
machine, and whatever else it does takes from them, so that these rows say little about
scheduling. That all ranks of a tensor-parallel server decide alike is tested in SGLang itself
(`tests/e2e/sglang/test_ranks.py`).""",
    not_with={
        "sglang": "start it yourself with engine.sglang.tp_size in the recipe, once for each size",
        "simulator": "a replay has no processors",
    },
)
