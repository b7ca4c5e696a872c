"""How long a replay takes, against a straightforward one, and how that grows.

    python benchmarks/bench_simulator.py [requests]

Replays the synthetic mix (4,096 requests, 128 slots) under ``fcfs`` (SGLang's former: tens of
thousands of rounds) and ``dwise`` (Algorithm 1), with the scheduling core and with
:func:`straightforward_replay`, which looks at every request in every round. Both must end every
request at the same time. Then the scheduling core alone, up to 100,000 requests.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from dwise_predict.scheduling import ResidencyLimits, RoundCost
from dwise_predict.simulation.estimates import NoisyOracle
from dwise_predict.simulation.predictions import Predictions
from dwise_predict.simulation.replay import Replay, replay
from dwise_predict.simulation.run import Setup
from dwise_predict.simulation.sources import synthetic_source
from dwise_predict.simulation.workload import FloatArray, SimulatedWorkload

SLOTS, MULTIPLIER = 128, 8
COST = RoundCost(10.0, 0.41, 0.00096)
SETUPS = {"fcfs": Setup("fcfs", "prefill_first"), "dwise": Setup("dwise", "mixed_phase")}
PREDICTOR = NoisyOracle(0.71, 0.89)
GROWTH = (1_000, 10_000, 100_000)

Result = TypeVar("Result")


@dataclass
class Job:
    """A request of the straightforward replay; ``left`` are the rounds of its unfinished blocks."""

    index: int
    arrival: tuple[float, str]
    prefill: int
    left: list[int]
    estimate: float
    kv: int = 0
    done: int = 0
    resident: bool = False


def straightforward_replay(
    workload: SimulatedWorkload,
    arrival_s: FloatArray,
    predictions: Predictions,
    ranked: bool,
    slots: int,
    cap: int,
    cost: RoundCost,
) -> tuple[FloatArray, int]:
    """Algorithm 1 (``ranked``), or SGLang's FCFS, as one would first write it.

    Without limits on KV and with a cap above the number of requests (``ranked``). Returns when each
    request finished, float64 [N], and the number of rounds.
    """
    coming = [
        Job(
            i,
            (float(arrival_s[i]), workload.request_ids[i]),
            int(workload.prompt_blocks[i]),
            list(workload.rounds_per_block[i]),
            float(predictions.admission[i]),
        )
        for i in range(len(workload))
    ]
    coming.sort(key=lambda job: (job.arrival[0], job.index))
    inside: list[Job] = []
    finished = np.full(len(workload), np.nan)
    now, rounds = 0.0, 0
    while coming or inside:
        while coming and coming[0].arrival[0] <= now:
            inside.append(coming.pop(0))
        if not inside:
            now = coming[0].arrival[0]
            continue
        running = _ranked_round(inside, slots, cap) if ranked else _fcfs_round(inside, slots)
        kv_tokens = sum(job.kv for job in running) * workload.block_size
        residents = sum(job.resident for job in inside)
        now += cost.round_ms(len(running), kv_tokens, residents) / 1e3
        rounds += 1
        for job in running:
            if job.prefill:
                job.prefill -= 1
                job.kv += 1
                continue
            job.done += 1
            job.left[0] -= 1
            job.estimate = max(job.estimate - 1, 0.0)
            if job.done == 1 and predictions.refined is not None:
                job.estimate = float(predictions.refined[job.index])
            if job.left[0] == 0:
                job.left.pop(0)
                job.kv += 1
            if not job.left:
                finished[job.index] = now
        inside = [job for job in inside if job.left]
    return finished, rounds


def _ranked_round(inside: list[Job], slots: int, cap: int) -> list[Job]:
    order = sorted(inside, key=lambda job: (job.prefill + job.estimate, job.arrival))
    for job in order[:slots]:
        if not job.resident and sum(other.resident for other in inside) < cap:
            job.resident = True
    return [job for job in order if job.resident][:slots]


def _fcfs_round(inside: list[Job], slots: int) -> list[Job]:
    for job in sorted(inside, key=lambda job: job.arrival)[:slots]:
        job.resident = True
    residents = [job for job in inside if job.resident]
    return [job for job in residents if job.prefill] or residents


def main(count: int) -> None:
    """Compare both replays, then show the growth."""
    workload = synthetic_source(count, seed=0).workload()
    for name in SETUPS:
        seconds, ours = timed(lambda name=name: core(workload, name, -(-count // SLOTS)))
        predictions = told(workload, name)
        baseline_seconds, (finished, rounds) = timed(
            lambda name=name, predictions=predictions: straightforward_replay(
                workload,
                np.zeros(count),
                predictions,
                name == "dwise",
                SLOTS,
                count,
                COST,
            )
        )
        if not np.array_equal(finished, ours.finished_s) or rounds != len(ours.slots):
            raise SystemExit(f"{name}: the replays differ")
        print(
            f"{name:6} {count:7,} requests {rounds:7,} rounds {seconds:7.2f} s   straightforward: "
            f"{baseline_seconds:7.2f} s, {baseline_seconds / seconds:6.1f} times as long"
        )
    for name in SETUPS:
        for n in GROWTH:
            grown = synthetic_source(n, seed=0).workload()
            seconds, ours = timed(lambda name=name, grown=grown: core(grown, name, MULTIPLIER))
            print(
                f"{name:6} {n:7,} requests {len(ours.slots):9,} rounds {seconds:7.2f} s   "
                f"{seconds / n * 1e6:6.1f} us a request, {seconds / ours.slots.sum() * 1e6:5.2f} "
                "us a slot"
            )


def core(workload: SimulatedWorkload, name: str, multiplier: int) -> Replay:
    """A replay with the scheduling core."""
    limits = ResidencyLimits(SLOTS, workload.block_size, multiplier)
    scheduler = SETUPS[name].scheduler(limits, COST)
    return replay(workload, np.zeros(len(workload)), told(workload, name), scheduler, COST)


def told(workload: SimulatedWorkload, name: str) -> Predictions:
    """What the policy is told."""
    return PREDICTOR.predict(workload, "rounds" if name == "dwise" else "nothing")


def timed(call: Callable[[], Result]) -> tuple[float, Result]:
    """Seconds of a call, and its result."""
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4096)
