"""Tables of a results folder that several test modules use."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from dwise_predict.results import ROUNDS_SCHEMA
from dwise_predict.simulation.sources.source import facts_table


def facts(categories: Sequence[str]) -> pa.Table:
    """Requests of these categories, each with one output block of two rounds."""
    n = len(categories)
    same = {
        "dataset": "made-up", "prompt_tokens": 9, "prompt_blocks": 2, "budget_tokens": 8,
        "output_tokens": 3, "output_blocks": 1, "rounds": 2, "rounds_per_block": [2],
        "first_block_masked": 3, "finish_reason": "eos",
    }  # fmt: skip
    columns = {name: [value] * n for name, value in same.items()}
    columns |= {"request_id": [f"r{i}" for i in range(n)], "category": list(categories)}
    return facts_table(columns, n)


def rounds_table(
    wall_ms: Sequence[float], slots: Sequence[int], prefill_slots: Sequence[int]
) -> pa.Table:
    """Rounds without KV and waiting requests."""
    n = len(wall_ms)
    columns = {
        "index": range(n), "start_s": [sum(wall_ms[:i]) / 1e3 for i in range(n)],
        "wall_ms": wall_ms, "slots": slots, "prefill_slots": prefill_slots,
        "kv_tokens": [0] * n, "residents": slots, "waiting": [0] * n,
    }  # fmt: skip
    arrays = [pa.array(columns[field.name], field.type) for field in ROUNDS_SCHEMA]
    return pa.Table.from_arrays(arrays, schema=ROUNDS_SCHEMA)
