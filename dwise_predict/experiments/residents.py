"""Figure 10: how many requests may hold KV."""

from __future__ import annotations

from collections.abc import Sequence

from dwise_predict.experiments.case import ARRIVALS, Case
from dwise_predict.experiments.comparison import comparison
from dwise_predict.experiments.experiment import Column
from dwise_predict.experiments.measures import MEAN
from dwise_predict.experiments.plots import lines
from dwise_predict.experiments.values import Key, Value, summarised

MULTIPLIERS = (1, 2, 4, 8, 16)


def _label(case: Case) -> str:
    return f"DWISE k={case.multiplier}"


def _plot(values: Sequence[Value]) -> bytes:
    means = summarised(values)
    panels = {
        title: {
            str(arrival): {k: means[Key(arrival, f"DWISE k={k}", figure)].mean for k in MULTIPLIERS}
            for arrival in ARRIVALS
        }
        for title, figure in (
            ("mean latency (s)", MEAN),
            ("rounds in which the cap blocked (%)", "blocked_by_cap_pct"),
        )
    }
    return lines(panels, "k", "", log_x=True)


EXPERIMENT = comparison(
    name="residents",
    source="Figure 10",
    title="How many requests may hold KV",
    cases=[Case("DWISE", arrival, multiplier=k) for arrival in ARRIVALS for k in MULTIPLIERS],
    columns=(
        Column(MEAN, "mean (s)", ".4g"),
        Column("blocked_by_cap_pct", "cap blocked (% of rounds)", ".1f"),
    ),
    plot=_plot,
    differences="",
    one_seed=True,
    label=_label,
)
