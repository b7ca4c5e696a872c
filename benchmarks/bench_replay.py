"""How well the simulator says what the built-in engine then does.

    python benchmarks/bench_replay.py [requests]

Serves built-in prompts with the embedded model and its bundle under ``fcfs`` (SGLang's former) and
``dwise`` (mixed rounds), both through the same scheduling core. Each run is then simulated with
what its scheduler was told: rounds must be equal, or the benchmark fails. Seconds are simulated
twice, with the round cost fitted to the run itself and to the other policy's run.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

from dwise_predict.bundle import PredictorBundle
from dwise_predict.engines.loading import load_engine
from dwise_predict.recipe import load_recipe
from dwise_predict.results import Results
from dwise_predict.scheduling import ResidencyLimits, RoundCost
from dwise_predict.serving import serve_workload
from dwise_predict.simulation.estimates import Target
from dwise_predict.simulation.fitting import fit_round_cost
from dwise_predict.simulation.predictions import Predictions
from dwise_predict.simulation.run import Arrivals, Setup, simulate
from dwise_predict.simulation.sources.source import FACTS_SCHEMA, Source
from dwise_predict.simulation.workload import SimulatedWorkload
from dwise_predict.workload.builtin import builtin_workload

SETUPS = {"fcfs": Setup("fcfs", "prefill_first"), "dwise": Setup("dwise", "mixed_phase")}


@dataclass
class AsTold:
    """What the served policy was told."""

    results: Results
    name: str = "as told"

    def predict(self, workload: SimulatedWorkload, target: Target) -> Predictions:
        """The recorded estimates."""
        requests = self.results.requests
        if target == "nothing":
            return Predictions(np.zeros(len(workload)))
        refined = np.nan_to_num(requests["refined_estimate"].to_numpy())
        return Predictions(requests["admission_estimate"].to_numpy(), refined)


def main(count: int) -> None:
    """Serve, simulate and compare."""
    recipe = load_recipe("tiny")
    engine, bundle = load_engine(recipe), PredictorBundle.from_pretrained("tiny")
    limits = ResidencyLimits(recipe.engine.slots, recipe.decoding.block_size)
    requests = builtin_workload(0, count, seed=1)
    arrivals = Arrivals("burst", np.zeros(count))
    budget = recipe.decoding.budget_tokens
    served = {}
    for name, setup in SETUPS.items():
        # The first run of a process is slower: memory and kernels are set up.
        for part in (requests[:32], requests):
            served[name] = serve_workload(
                part,
                engine,
                setup,
                limits,
                Arrivals("burst", np.zeros(len(part))),
                budget,
                RoundCost(1.0, 0.0, 0.0),
                bundle=bundle,
            )
    answers = [results.requests["rounds_per_block"] for results in served.values()]
    if answers[0] != answers[1]:
        raise SystemExit("the policies did not serve the same blocks")
    costs = {name: fit_round_cost(results.rounds) for name, results in served.items()}
    for name, ours in served.items():
        facts = ours.requests.select(FACTS_SCHEMA.names).cast(FACTS_SCHEMA)
        source = Source("served", recipe.decoding.block_size, facts)
        measured = ours.summary.latency_s
        print(
            f"{name:6} measured: {ours.summary.rounds} rounds, mean {measured.mean:.2f} s, p99 "
            f"{measured.p99:.2f} s, all in {measured.max:.2f} s"
        )
        for fitted_to, fit in costs.items():
            simulated = simulate(source, arrivals, SETUPS[name], limits, fit.cost, AsTold(ours))
            for column in ("slots", "prefill_slots", "kv_tokens", "residents", "waiting"):
                if simulated.rounds[column] != ours.rounds[column]:
                    raise SystemExit(f"{name}: simulated rounds differ in {column}")
            latency = simulated.summary.latency_s
            print(
                f"       simulated with the cost fitted to {fitted_to:5} (R2 {fit.r_squared:.3f}): "
                f"rounds equal; of the measured mean {latency.mean / measured.mean:.3f}, p99 "
                f"{latency.p99 / measured.p99:.3f}, end {latency.max / measured.max:.3f}"
            )
    ratio = served["fcfs"].summary.latency_s.mean / served["dwise"].summary.latency_s.mean
    print(f"mean latency of fcfs over dwise: {ratio:.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 256)
