"""Table 4: what the ranking is worth once the batch former is the same."""

from __future__ import annotations

from dwise_predict.experiments.case import ARRIVALS, LEARNED, Case
from dwise_predict.experiments.experiment import Column, Experiment
from dwise_predict.experiments.measures import MEAN, measures
from dwise_predict.experiments.plots import bars
from dwise_predict.experiments.settings import Settings
from dwise_predict.experiments.study import Study, served_work
from dwise_predict.experiments.values import Value
from dwise_predict.experiments.work import Work

OTHERS = ("FCFS mixed", *(f"{name} mixed" for name in LEARNED))
OURS = {"DWISE": "dwise", "DWISE extended": "extended"}
"""Both sets of admission features, by the beginning of their figures' names."""
CASES = [Case(run, arrival) for arrival in ARRIVALS for run in (*OTHERS, *OURS)]


def _work(settings: Settings) -> list[Work]:
    return served_work(settings, range(settings.seeds), CASES)


def _measure(study: Study) -> list[Value]:
    values = study.compare(CASES)
    for seed in study.seeds:
        for arrival in ARRIVALS:
            means = {
                case.run: measures(study.results(seed, case))[MEAN]
                for case in CASES
                if case.arrival == arrival
            }
            for run in OTHERS:
                for ours, name in OURS.items():
                    figures = {
                        f"over_{name}": means[run] / means[ours],
                        f"{name}_faster_pct": 100.0 * (means[ours] < means[run]),
                    }
                    values += [Value(arrival, run, f, seed, v) for f, v in figures.items()]
    return values


EXPERIMENT = Experiment(
    name="ranking",
    source="Table 4",
    title="Baselines on DWISE's batch former",
    columns=(
        Column(MEAN, "mean (s)", ".4g"),
        Column("over_dwise", "over DWISE", ".2f"),
        Column("dwise_faster_pct", "DWISE faster (% of seeds)", ".0f", spread=False),
        Column("over_extended", "over DWISE extended", ".2f", paper=False),
        Column("extended_faster_pct", "DWISE extended faster (% of seeds)", ".0f", spread=False),
    ),
    work=_work,
    measure=_measure,
    plot=bars("over_dwise", "mean latency over DWISE's"),
    differences="""\
With the batch former the same, what is left is the ranking, and DWISE's is ahead, by less than in
the paper. The baselines are better here than there: output length follows the work of this model
([output-length](output-length.md)), so that predicting it well orders requests well, and SSJF and
LTR even know more at admission than DWISE, whose three features of the prompt say little of this
workload. What decides is the refined estimate after the first round. *DWISE extended* also sees
the tokens of the prompt at admission ([admission features](../admission-features.md)), as the
baselines' text encoders do. Whether DWISE was faster is counted seed by seed; a column below 100
says that in some seed it was not. Ten seeds: see
[baselines](../baselines.md#on-the-embedded-model).""",
    not_with={"sglang": "SGLang's plugin has no learned baselines"},
)
