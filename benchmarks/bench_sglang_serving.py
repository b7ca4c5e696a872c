"""Stock SGLang against DWISE on the embedded model, through the HTTP server, in one run.

Both serve the same requests (long-context ones among them) from the same client, as a burst and as
a burst with Poisson arrivals after it; every number of DWISE is given as a ratio to stock's.

    .venv-sglang-0.5.20/bin/python benchmarks/bench_sglang_serving.py
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.e2e.sglang import environment

PATTERNS = ("burst", "burst+poisson")
SHOWN = ("mean", "p50", "p99", "first block", "requests/s", "rounds", "slots/round")


def run(server, queue, arrivals, tag: str) -> dict[str, float]:
    """Serve one trace; latencies in seconds."""
    before = server.dwise()[0]

    def one(pair):
        request, arrival = pair
        time.sleep(max(0.0, arrival - (time.perf_counter() - started)))
        named = replace(request, request_id=f"{tag}-{request.request_id}")
        return server.first_block_and_end(named)

    with ThreadPoolExecutor(len(queue)) as pool:
        started = time.perf_counter()
        times = np.array(list(pool.map(one, zip(queue, arrivals, strict=True))))
        wall = time.perf_counter() - started
    after = server.dwise()[0]
    rounds = after["rounds"] - before["rounds"]
    return dict(
        zip(
            SHOWN,
            (
                times[:, 1].mean(),
                np.median(times[:, 1]),
                np.quantile(times[:, 1], 0.99),
                times[:, 0].mean(),
                len(queue) / wall,
                rounds,
                (after["filled_slots"] - before["filled_slots"]) / rounds,
            ),
            strict=True,
        )
    )


def main() -> None:
    """Print medians over the repeats and their ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=96)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rate", type=float, default=8.0, help="Poisson arrivals a second.")
    arguments = parser.parse_args()
    environment.prepare()
    from dwise_predict.simulation.arrivals import arrival_times
    from tests.e2e.sglang.inprocess import Setting
    from tests.e2e.sglang.server import Server
    from tests.e2e.sglang.workloads import TINY, tiny_requests, torch_engine

    queue, _ = tiny_requests(torch_engine(), arguments.requests)
    results: dict[tuple[str, str], list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        setting = Setting(TINY, kv_tokens=32_768)
        # Stock is recorded, which leaves its scheduling as it is and counts its rounds.
        strict = {"DWISE_STRICT": "1"}
        with (
            Server(setting, folder, {**strict, "DWISE_PROFILE": f"{folder}/recording"}) as stock,
            stock.stopped(),
            Server(setting, folder, {**strict, "DWISE_BUNDLE": "tiny"}) as dwise,
            dwise.stopped(),
        ):
            pairs = {"stock": stock, "dwise": dwise}
            for repeat, pattern in itertools.product(range(arguments.repeats), PATTERNS):
                rate = None if pattern == "burst" else arguments.rate
                arrivals = arrival_times(pattern, len(queue), rate, seed=0)
                # In turns, so that both meet the same load of the machine.
                for name, server in pairs.items():
                    os.killpg(server.process.pid, signal.SIGCONT)
                    found = run(server, queue, arrivals, f"{pattern}-{repeat}")
                    os.killpg(server.process.pid, signal.SIGSTOP)
                    results.setdefault((pattern, name), []).append(found)
    for pattern in PATTERNS:
        median = {
            name: {key: float(np.median([r[key] for r in results[pattern, name]])) for key in SHOWN}
            for name in ("stock", "dwise")
        }
        print(f"{pattern}: median of {arguments.repeats} runs of {len(queue)} requests, 8 slots")
        for key in SHOWN:
            stock, dwise = median["stock"][key], median["dwise"][key]
            print(f"  {key:12} stock {stock:9.2f}  dwise {dwise:9.2f}  ratio {dwise / stock:.3f}")


if __name__ == "__main__":
    main()
