"""Table 10: other requests, arrivals and trainings."""

from __future__ import annotations

from dwise_predict.experiments.case import ARRIVALS, Case
from dwise_predict.experiments.comparison import comparison
from dwise_predict.experiments.experiment import Column
from dwise_predict.experiments.measures import MEAN, SPEEDUP
from dwise_predict.experiments.plots import bars
from dwise_predict.simulation.paper.comparison import OVER_SEEDS

EXPERIMENT = comparison(
    name="seeds",
    source="Table 10",
    title="Other requests, arrivals and trainings",
    cases=[Case(run, arrival) for arrival in ARRIVALS for run in ("SGLang", "DWISE")],
    columns=(Column(MEAN, "mean (s)", ".4g"), Column(SPEEDUP, "mean ×", ".2f")),
    plot=bars(SPEEDUP, "mean latency, times faster than SGLang"),
    differences="""\
Spreads are 5 to 10% of a mean here and 1 to 2% in the paper, whose three traces differ in the
order of the requests and their arrival times only: a seed here draws other prompts, profiles them
and trains other predictors. Seconds of the built-in engine also change with whatever else the
machine does, those of `--engine simulator` only with what it did while profiling.""",
    label=lambda case: case.run + OVER_SEEDS,
)
