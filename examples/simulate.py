"""Replay a profile under several schedulers: python examples/simulate.py [RUN]

RUN is a run folder of ``dwise train`` or examples/train.py.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dwise_predict import PredictorBundle, read_profile
from dwise_predict.run_folder import RunFolder
from dwise_predict.scheduling import ResidencyLimits
from dwise_predict.simulation.arrivals import arrival_times
from dwise_predict.simulation.estimates import Oracle, Untold
from dwise_predict.simulation.fitting import fit_round_cost
from dwise_predict.simulation.learned import bundle_estimates
from dwise_predict.simulation.run import Arrivals, Setup, simulate
from dwise_predict.simulation.sources import profile_source

run = RunFolder(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/example"))
profile = read_profile(run.profile)
source = profile_source(profile)  # the requests that predictors were not trained on
bundle = PredictorBundle.load(run.bundle)

fit = fit_round_cost(profile.rounds)
limits = ResidencyLimits(slots=16, block_size=source.block_size)
arrivals = Arrivals("burst+poisson", arrival_times("burst+poisson", len(source), 60.0, seed=0))
print(f"{len(source)} requests, cost fitted with R2 {fit.r_squared:.2f}")

candidates = {
    "fcfs": (Setup("fcfs", "prefill_first"), Untold()),
    "fcfs in mixed rounds": (Setup("fcfs", "mixed_phase"), Untold()),
    "dwise": (Setup("dwise", "mixed_phase"), bundle_estimates(bundle, source, curves=False)),
    "dwise, aging 10": (
        Setup("dwise", "mixed_phase", {"aging": 10.0}),
        bundle_estimates(bundle, source, curves=False),
    ),
    "oracle": (Setup("oracle", "mixed_phase"), Oracle()),
}
for name, (setup, predictor) in candidates.items():
    results = simulate(source, arrivals, setup, limits, fit.cost, predictor)
    took = results.summary.latency_s
    print(
        f"{name:20} {results.summary.rounds:5} rounds, mean {took.mean:.3f} s, p99 {took.p99:.3f} s"
    )
