"""Table 6: how often remaining rounds are estimated anew."""

from __future__ import annotations

from dwise_predict.experiments.case import POISSON, Case
from dwise_predict.experiments.comparison import comparison
from dwise_predict.experiments.experiment import Column
from dwise_predict.experiments.measures import MEAN, P50
from dwise_predict.experiments.plots import bars

RUNS = ("DWISE", "DWISE per block", "DWISE per 4 rounds", "DWISE per round")

EXPERIMENT = comparison(
    name="refinement",
    source="Table 6",
    title="How often estimates are refined",
    cases=[Case(run, POISSON) for run in RUNS],
    columns=(
        Column(MEAN, "mean (s)", ".4g"),
        Column(P50, "p50 (s)", ".4g"),
        Column("preemptions", "preemptions a request", ".2f"),
        Column("reached_zero_pct", "reached zero (%)", ".1f"),
    ),
    plot=bars("preemptions", "preemptions a request"),
    differences="""\
As in the paper, refining more often does not pay: mean latency is lowest with one refinement.
Preemptions are fewest with one and most with one a round, while fewer requests outlive their
estimate. Part of the distance in seconds is the machine's, which was not equally fast in runs
that lie minutes apart: `--engine simulator` has the same order with less than one percent between
them, the paper has 2 to 5. Re-estimates come from the hidden state of the round they are made in,
by the network that was trained on first rounds, as there.""",
    not_with={"sglang": "the plugin refines once"},
)
