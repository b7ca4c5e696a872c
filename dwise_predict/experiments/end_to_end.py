"""Table 2: SGLang's scheduling, five others, and DWISE."""

from __future__ import annotations

from dwise_predict.experiments.case import ARRIVALS, LEARNED, Case
from dwise_predict.experiments.comparison import comparison
from dwise_predict.experiments.experiment import Column
from dwise_predict.experiments.measures import MEAN, P50_SPEEDUP, P99_SPEEDUP, SPEEDUP
from dwise_predict.experiments.plots import bars

RUNS = ("SGLang", "MLFQ", *LEARNED, "DWISE")

EXPERIMENT = comparison(
    name="end-to-end",
    source="Table 2 and Figures 6 and 7",
    title="SGLang's scheduling, five others, and DWISE",
    cases=[Case(run, arrival) for arrival in ARRIVALS for run in RUNS],
    columns=(
        Column(MEAN, "mean (s)", ".4g"),
        Column(SPEEDUP, "mean ×", ".2f"),
        Column(P50_SPEEDUP, "p50 ×", ".2f"),
        Column(P99_SPEEDUP, "p99 ×", ".2f"),
        Column("throughput_rps", "requests/s"),
        Column("accuracy_pct", "right answers (%)", ".1f"),
    ),
    plot=bars(SPEEDUP, "mean latency, times faster than SGLang"),
    differences="""\
DWISE is the fastest under both patterns, by less than in the paper. Mixing phases does not double
the throughput on a CPU, where a block takes nearly its full time in any round, and long prompts
are a smaller part of the work. MLFQ is again no better than SGLang. SSJF, LTR and TRAIL are,
unlike in the paper: output length follows the work of this model, and their predictors know it
well ([output-length](output-length.md)). S³ gains next to nothing: it loses what its few buckets
cannot tell apart. The 99th percentile pays for it under burst+Poisson, where every ranking but
DWISE's is worse than SGLang. Answers are the same tokens under every scheduler here, so that the
share of right ones is exactly the same.""",
)
