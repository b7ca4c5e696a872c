"""Table 16: the slowest requests of each category."""

from __future__ import annotations

from dwise_predict.experiments.case import ARRIVALS, Case
from dwise_predict.experiments.experiment import Column, Experiment
from dwise_predict.experiments.measures import TAILS
from dwise_predict.experiments.plots import bars
from dwise_predict.experiments.settings import Settings
from dwise_predict.experiments.study import Study, served_work
from dwise_predict.experiments.values import Value
from dwise_predict.experiments.work import Work

CASES = [Case(run, arrival) for arrival in ARRIVALS for run in ("SGLang", "DWISE")]


def _work(settings: Settings) -> list[Work]:
    return served_work(settings, range(settings.seeds), CASES)


def _measure(study: Study) -> list[Value]:
    values = []
    for seed in study.seeds:
        for arrival in ARRIVALS:
            stock, ours = (
                study.results(seed, Case(run, arrival)).summary.by_category
                for run in ("SGLang", "DWISE")
            )
            for category in ours:
                before, after = stock[category].latency_s, ours[category].latency_s
                figures = {
                    "sglang_p99_s": before.p99,
                    "dwise_p99_s": after.p99,
                    TAILS["p99"]: before.p99 / after.p99,
                    TAILS["max"]: before.max / after.max,
                }
                values += [
                    Value(arrival, category, name, seed, value) for name, value in figures.items()
                ]
    return values


EXPERIMENT = Experiment(
    name="tails",
    source="Table 16",
    title="The slowest requests of each category",
    columns=(
        Column("sglang_p99_s", "SGLang p99 (s)", ".4g", paper=False),
        Column("dwise_p99_s", "DWISE p99 (s)", ".4g", paper=False),
        Column(TAILS["p99"], "p99 ×", ".2f"),
        Column(TAILS["max"], "max ×", ".2f"),
    ),
    work=_work,
    measure=_measure,
    plot=bars(TAILS["p99"], "p99 latency, times faster than SGLang", log=True),
    differences="""\
As in the paper, short categories gain most. The paper's DWISE improves every category; here long
prompts, which are served last, lose a little over a tenth under burst+Poisson and win little as
a burst, and chats and instructions win little, too: deferring the longest pays in the paper
because mixing phases doubles the throughput, which it does not on a CPU. Ratios above 60 in the
paper are multiple choice of one or two rounds that had waited for the whole backlog; a backlog
of seconds has no such ratios.""",
)
