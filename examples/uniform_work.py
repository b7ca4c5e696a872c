"""What ordering is worth when requests need ever more alike: python examples/uniform_work.py

Simulates a burst of made-up requests whose denoising rounds are log-normal with one median and less
and less spread; the oracle knows all of them.
"""

from __future__ import annotations

import numpy as np

from dwise_predict.scheduling import ResidencyLimits, RoundCost
from dwise_predict.simulation.estimates import Oracle, Untold
from dwise_predict.simulation.run import Arrivals, Setup, simulate
from dwise_predict.simulation.sources import SyntheticCategory, synthetic_source

N, SLOTS = 2048, 128
print("spread   p90/p10 of rounds   FCFS   FCFS, mixed rounds   oracle   gain of ordering alone")
for spread in (1.0, 0.6, 0.3, 0.1, 0.0):
    kind = SyntheticCategory("one", 1.0, 60, spread, 160, 0.3, 220, 0.1)
    source = synthetic_source(N, seed=0, mix=[kind])
    low, high = np.percentile(source.facts["rounds"].to_numpy(), [10, 90])
    limits = ResidencyLimits(SLOTS, source.block_size)
    means = [
        simulate(
            source,
            Arrivals("burst", np.zeros(N)),
            Setup(policy, former),
            limits,
            RoundCost(10.0, 0.41, 0.00096),
            predictor,
        ).summary.latency_s.mean
        for policy, former, predictor in (
            ("fcfs", "prefill_first", Untold()),
            ("fcfs", "mixed_phase", Untold()),
            ("oracle", "mixed_phase", Oracle()),
        )
    ]
    print(
        f"{spread:6} {high / low:19.1f} {means[0]:6.1f} s {means[1]:18.1f} s {means[2]:6.1f} s"
        f" {means[1] / means[2]:23.2f}"
    )
