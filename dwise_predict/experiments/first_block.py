"""Table 15: time until the first output block."""

from __future__ import annotations

from dwise_predict.experiments.case import ARRIVALS, Case
from dwise_predict.experiments.comparison import comparison
from dwise_predict.experiments.experiment import Column
from dwise_predict.experiments.plots import bars

EXPERIMENT = comparison(
    name="first-block",
    source="Table 15",
    title="Time until the first output block",
    cases=[Case(run, arrival) for arrival in ARRIVALS for run in ("SGLang", "DWISE")],
    columns=(
        Column("first_block_mean_s", "mean (s)", ".4g"),
        Column("first_block_p50_s", "p50 (s)", ".4g"),
        Column("first_block_p99_s", "p99 (s)", ".4g"),
    ),
    plot=bars("first_block_mean_s", "mean seconds until the first block", log=True),
    differences="""\
As in the paper, prefill-first scheduling does not even protect the first block: SGLang's mean
time to it is close to its mean latency, and DWISE brings it down. By how much follows from the
latencies ([end-to-end](end-to-end.md)): two to three times here, 8 to 13 there. The 99th
percentile improves less in both, since these are the requests that are served last; under
burst+Poisson it does not improve at all here.""",
)
