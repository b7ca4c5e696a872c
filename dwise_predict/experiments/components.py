"""Figure 8: DWISE's parts, one after the other."""

from __future__ import annotations

from dwise_predict.experiments.case import POISSON, Case
from dwise_predict.experiments.comparison import comparison
from dwise_predict.experiments.experiment import Column
from dwise_predict.experiments.measures import MEAN, SPEEDUP
from dwise_predict.experiments.plots import bars

RUNS = ("SGLang", "FCFS mixed", "DWISE prefill only", "DWISE admission only", "DWISE", "Oracle")

EXPERIMENT = comparison(
    name="components",
    source="Figure 8",
    title="DWISE's parts, one after the other",
    cases=[Case(run, POISSON) for run in RUNS],
    columns=(Column(MEAN, "mean (s)", ".4g"), Column(SPEEDUP, "mean ×", ".2f")),
    plot=bars(SPEEDUP, "mean latency, times faster than SGLang"),
    differences="""\
Every part helps, in the paper's order, but they share the gain otherwise. Mixing phases gains
less, for the reasons given for [rounds](rounds.md). Ranking by prefill blocks alone gains much
less: long prompts are 57 blocks here and most of the work is denoising. The admission estimate
adds little, because three features of the prompt hardly order this workload
([signals](signals.md)); so refinement, the smallest step in the paper (7%), is the largest of the
ranking here. DWISE comes to about four fifths of the oracle's speedup, as in the paper (84%).""",
)
