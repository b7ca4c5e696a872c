"""Block forwards a second of the built-in engine, with what makes it fast taken away in turn.

    python benchmarks/bench_rounds.py

Serves 128 built-in prompts with the embedded model on one thread, each variant in a process of its
own, because the allocator's policy cannot be undone. Ratios are what to compare between machines.
"""

from __future__ import annotations

import subprocess
import sys
import time

import dwise_predict.engines.torch_engine.engine as engine_module
from dwise_predict.engines.protocol import EngineRequest
from dwise_predict.recipe import load_recipe
from dwise_predict.scheduling import fcfs_scheduler
from dwise_predict.workload.builtin import builtin_workload

VARIANTS = ("as shipped", "default allocator", "default matrix products", "one slot")
REQUESTS = 128


def main() -> None:
    """Run every variant and print rates and ratios."""
    rates = {}
    for variant in VARIANTS:
        command = [sys.executable, __file__, variant]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        rates[variant] = float(output)
    for variant, rate in rates.items():
        print(f"{variant:26s} {rate:7.0f} block forwards/s   {rate / rates['as shipped']:5.2f}")


def measure(variant: str) -> float:
    """Block forwards a second of one variant."""
    if variant == "default allocator":
        engine_module.keep_freed_memory = lambda: False
    if variant == "default matrix products":
        engine_module.use_onednn = lambda model: None
    recipe = load_recipe("tiny")
    slots = 1 if variant == "one slot" else recipe.engine.slots
    settings = recipe.engine.model_copy(update={"slots": slots, "threads": 1})
    engine = engine_module.TorchEngine.load(recipe.model, settings, recipe.decoding)
    requests = [
        EngineRequest(r.request_id, tuple(engine.encode(r.messages)), recipe.decoding.budget_tokens)
        for r in builtin_workload(0, REQUESTS, seed=0)
    ]
    started = time.perf_counter()
    result = engine.serve(requests, fcfs_scheduler(slots))
    seconds = time.perf_counter() - started
    return sum(record.slots for record in result.rounds) / seconds


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(measure(sys.argv[1]))
    else:
        main()
