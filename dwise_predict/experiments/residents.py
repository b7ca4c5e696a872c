"""Figure 10: how many requests may hold KV."""

from __future__ import annotations

from collections.abc import Sequence

from dwise_predict.experiments.case import ARRIVALS, Case
from dwise_predict.experiments.experiment import Column, Experiment
from dwise_predict.experiments.measures import MEAN, measures
from dwise_predict.experiments.plots import lines
from dwise_predict.experiments.settings import MULTIPLIER, Settings
from dwise_predict.experiments.study import Study, served_work
from dwise_predict.experiments.values import Key, Value, summarised
from dwise_predict.experiments.work import Work

MULTIPLIERS = (1, 2, 4, MULTIPLIER, 16)
CASES = [Case("DWISE", arrival, multiplier=k) for arrival in ARRIVALS for k in MULTIPLIERS]
RATIO, BLOCKED = "mean_latency_ratio", "blocked_by_cap_pct"


def _label(case: Case) -> str:
    return f"DWISE k={case.multiplier}"


def _work(settings: Settings) -> list[Work]:
    return served_work(settings, [0], CASES)


def _measure(study: Study) -> list[Value]:
    values = study.compare(CASES, [0], _label)
    for case in CASES:
        usual = Case("DWISE", case.arrival)
        mean, usual_mean = (measures(study.results(0, c))[MEAN] for c in (case, usual))
        values.append(Value(case.arrival, _label(case), RATIO, 0, mean / usual_mean))
    return values


def _plot(values: Sequence[Value]) -> bytes:
    means = summarised(values)
    panels = {
        title: {
            str(arrival): {k: means[Key(arrival, f"DWISE k={k}", figure)].mean for k in MULTIPLIERS}
            for arrival in ARRIVALS
        }
        for title, figure in (
            (f"mean latency over that of k = {MULTIPLIER}", RATIO),
            ("rounds in which the cap blocked (%)", BLOCKED),
        )
    }
    return lines(panels, "k", "", log_x=True)


EXPERIMENT = Experiment(
    name="residents",
    source="Figure 10",
    title="How many requests may hold KV",
    columns=(
        Column(MEAN, "mean (s)", ".4g"),
        Column(RATIO, f"over k = {MULTIPLIER}", ".2f"),
        Column(BLOCKED, "cap blocked (% of rounds)", ".1f"),
    ),
    work=_work,
    measure=_measure,
    plot=_plot,
    differences="""\
The same shape: a cap of 2B blocks admission in many rounds and costs some percent of mean
latency, at 4B little or nothing is left of that, and from 8B on it never binds. With B residents,
which the paper does not show, nobody can be displaced for anybody who waits. 16B is the same
schedule as 8B: what differs between these two rows is the machine, and so is part of what differs
between others (`--engine simulator` says 1.00 from k = 4 on). Here no KV limit is set, so the cap
alone keeps requests out; in the paper KV takes over beyond k = 8.""",
)
