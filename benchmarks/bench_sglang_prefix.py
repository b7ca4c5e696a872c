"""What DWISE gains over stock SGLang when prompts share long prefixes that the prefix cache holds.

Serves a burst of the embedded model's short prompts behind long prefixes, once each request with a
prefix of its own and once a few prefixes shared by all, with SGLang's prefix cache on.

    .venv-sglang-0.5.20/bin/python benchmarks/bench_sglang_prefix.py
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.e2e.sglang import environment

PREFIX, PREFIXES, BUDGET, SLOTS = 320, 4, 64, 8


def queue(engine, count: int, shared: bool, rng: random.Random) -> list[list[int]]:
    """Token ids of ``count`` prompts; prefixes are those of long-context prompts, shuffled."""
    from dwise_predict.workload.builtin import builtin_workload

    drawn = builtin_workload(0, 40 * count, seed=7)
    short = [r for r in drawn if r.category != "long_context"][:count]
    source = [t for r in drawn if r.category == "long_context" for t in engine.encode(r.messages)]
    prefixes = [rng.sample(source, PREFIX) for _ in range(PREFIXES if shared else count)]
    return [
        [*prefixes[i % len(prefixes)], *engine.encode(request.messages)]
        for i, request in enumerate(short)
    ]


def run(server, prompts: list[list[int]], tag: str) -> tuple[float, float]:
    """Mean latency in seconds, and blocks that were processed for a request."""
    before = server.dwise()[0]["filled_slots"]
    started = time.perf_counter()

    def one(numbered: tuple[int, list[int]]) -> float:
        number, ids = numbered
        sampling = {"temperature": 0, "max_new_tokens": BUDGET}
        body = {"rid": f"{tag}-{number}", "input_ids": ids, "sampling_params": sampling}
        server.post("/generate", body)
        return time.perf_counter() - started

    with ThreadPoolExecutor(len(prompts)) as pool:
        times = list(pool.map(one, enumerate(prompts)))
    blocks = server.dwise()[0]["filled_slots"] - before
    return float(np.mean(times)), blocks / len(prompts)


def main() -> None:
    """Print mean latencies, ratios and cache hits."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=3)
    flags = parser.parse_args()
    environment.prepare()
    from tests.e2e.sglang.inprocess import Setting
    from tests.e2e.sglang.server import Server
    from tests.e2e.sglang.workloads import TINY, torch_engine

    engine, rng = torch_engine(), random.Random(0)
    setting = Setting(TINY, slots=SLOTS, radix=True, kv_tokens=32_768)
    strict = {"DWISE_STRICT": "1"}
    found: dict[tuple[bool, str], list[tuple[float, float]]] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        # Stock is recorded, which leaves its scheduling as it is and counts its blocks.
        Server(setting, folder, {**strict, "DWISE_PROFILE": f"{folder}/recording"}) as stock,
        stock.stopped(),
        Server(setting, folder, {**strict, "DWISE_BUNDLE": "tiny"}) as dwise,
        dwise.stopped(),
    ):
        for repeat in range(flags.repeats):
            for shared in (False, True):
                prompts = queue(engine, flags.requests, shared, rng)
                # In turns, so that both meet the same load of the machine.
                for name, server in {"stock": stock, "dwise": dwise}.items():
                    os.killpg(server.process.pid, signal.SIGCONT)
                    found.setdefault((shared, name), []).append(
                        run(server, prompts, f"{repeat}-{shared}")
                    )
                    os.killpg(server.process.pid, signal.SIGSTOP)
    for shared in (False, True):
        what = f"{PREFIXES} shared prefixes" if shared else "a prefix for each request"
        means, done = {}, {}
        for name in ("stock", "dwise"):
            means[name], done[name] = np.median(np.array(found[shared, name]), axis=0)
        print(
            f"{what:26} stock {means['stock']:6.2f} s, {done['stock']:5.1f} blocks   "
            f"dwise {means['dwise']:6.2f} s, {done['dwise']:5.1f} blocks   "
            f"ratio {means['dwise'] / means['stock']:.2f}"
        )


if __name__ == "__main__":
    main()
