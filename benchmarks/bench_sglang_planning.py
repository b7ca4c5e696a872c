"""Host time that the plugin adds to a round of SGLang: 128 slots, 1,024 residents.

Runs the real in-process scheduler with a stubbed-out forward pass, so that what is left is host
work. Prints the plugin's part (planning, bookkeeping, reading refined estimates) beside SGLang's
own host work in the same rounds, which is the baseline. Both are CPU time of the thread: other
processes on the machine lengthen it by what they push out of its caches, not by taking turns.

    .venv-sglang-0.5.20/bin/python benchmarks/bench_sglang_planning.py
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.e2e.sglang import environment

SLOTS, RESIDENTS = 128, 1024


class Stopwatch:
    """Adds up the time spent in wrapped methods, outermost calls only."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0

    def wrap(self, owner: object, name: str) -> None:
        """Time ``owner.name``."""
        method = getattr(owner, name)

        def timed(*args: object, **kwargs: object) -> object:
            self._depth += 1
            started = time.thread_time()
            try:
                return method(*args, **kwargs)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.seconds += time.thread_time() - started

        setattr(owner, name, timed)


class Rehearsal:
    """In place of SGLang's adder and of what it does to requests, takes all, does nothing."""

    rem_input_tokens = rem_chunk_tokens = 0

    def __init__(self) -> None:
        self.can_run_list: list[Any] = []

    def add_dllm_staging_req(self, req: object) -> None:
        """A request that was in a round before."""

    def add_one_req(self, req: object, **options: object) -> None:
        """A request that comes into its first round."""
        self.can_run_list.append(req)


def main() -> None:
    """Print medians over the rounds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--policy", default="dwise")
    parser.add_argument("--rounds", type=int, default=300)
    arguments = parser.parse_args()
    environment.prepare()
    os.environ |= {"DWISE_BUNDLE": "tiny", "DWISE_POLICY": arguments.policy, "DWISE_STRICT": "1"}
    logging.disable(logging.WARNING)
    import torch
    from sglang.srt.managers.schedule_batch import Req
    from sglang.srt.managers.utils import GenerationBatchResult

    from tests.e2e.sglang.inprocess import Engine, Setting
    from tests.e2e.sglang.workloads import TINY

    with tempfile.TemporaryDirectory() as folder:
        setting = Setting(TINY, slots=SLOTS, kv_tokens=16 * 40 * RESIDENTS)
        engine = Engine(setting, Path(folder))
    scheduler, runtime = engine.scheduler, engine.scheduler._dwise
    rng = random.Random(0)
    block = setting.block_size
    # Drawn once: to draw them in each round would empty the caches, which no GPU's forward does.
    noise = torch.randn(SLOTS * block, scheduler.model_config.hidden_size)

    def forward(_: object, batch: object) -> object:
        """No forward pass: a block in six is done, hidden states are noise."""
        rows = len(batch.reqs)
        if runtime.tap is not None:
            runtime.tap.after_logits(noise[: rows * block])
        done = [block if row.prefill or rng.random() < 1 / 6 else 0 for row in runtime._rows]
        tokens = [[5] * block if accepted else [1] * block for accepted in done]
        return GenerationBatchResult(next_token_ids=tokens, accept_length_per_req_cpu=done)

    scheduler.tp_worker._forward_batch_generation_dllm = forward
    plugin = Stopwatch()
    for owner, names in (
        (runtime, ("synchronise", "round_started", "settle_prompts", "round_finished")),
        (runtime.planner, ("plan",)),
    ):
        for name in names:
            plugin.wrap(owner, name)
    form, prepare = runtime.planner.form, Req.init_next_round_input

    def rehearsed_form(adder: object) -> None:
        """Time a round that is formed without SGLang's own work in between, then form it."""
        rehearsal = Rehearsal()
        Req.init_next_round_input = lambda req, cache: None
        started = time.thread_time()
        form(rehearsal)
        plugin.seconds += time.thread_time() - started
        Req.init_next_round_input = prepare
        for req in rehearsal.can_run_list:
            req._dwise.started = False
        form(adder)

    runtime.planner.form = rehearsed_form
    times: list[tuple[float, float, int]] = []
    tap = Stopwatch()
    if runtime.tap is not None:
        tap.wrap(runtime.tap, "after_logits")

    def submit(count: int, blocks: int) -> None:
        for _ in range(count):
            prompt = [rng.randrange(2, 500) for _ in range(blocks * block + rng.randrange(block))]
            engine.submit(f"r{len(engine.requests):06}", prompt, 96)

    # Ever shorter prompts displace those before, which stay resident.
    for blocks in (40, 35, 30, 25, 20, 15, 10, 5):
        submit(SLOTS, blocks)
        for _ in range(2):
            engine.step()
    while len(times) < arguments.rounds:
        submit(RESIDENTS + 64 - len(runtime.tracked), 2)
        plugin.seconds = tap.seconds = 0.0
        started = time.thread_time()
        engine.step()
        total = time.thread_time() - started - tap.seconds
        own = plugin.seconds
        times.append((own, total - own, len(scheduler.dllm_manager.waiting_queue)))
    full = [t for t in times if t[2] >= 0.9 * RESIDENTS]
    own = [t[0] * 1e3 for t in full]
    stock = [t[1] * 1e3 for t in full]
    print(f"policy {arguments.policy}: {len(full)} rounds with a median of ", end="")
    print(f"{statistics.median(t[2] for t in full):.0f} residents")
    p90 = sorted(own)[len(own) * 9 // 10]
    print(f"plugin   median {statistics.median(own):.3f} ms, p90 {p90:.3f} ms")
    print(f"SGLang   median {statistics.median(stock):.3f} ms")
    print(f"ratio    {statistics.median(own) / statistics.median(stock):.3f}")


if __name__ == "__main__":
    main()
