"""What a profile of the paper's size takes on disk, written with the code that writes profiles."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from dwise_predict.doctor.campaign import profile_bytes
from dwise_predict.predictors.features import token_bins
from dwise_predict.profile.encoding import hidden_bytes, table_bytes
from dwise_predict.profile.records import REQUESTS_SCHEMA, ROUNDS_SCHEMA
from dwise_predict.recipe import load_recipe
from dwise_predict.simulation.paper.reference import BUDGET_TOKENS, reference_workload

REQUESTS, HIDDEN = 2048, 2048
ROUNDS = 63_926 // 2  # Table 3: SGLang's rounds for 4,096 requests


@pytest.fixture(scope="module")
def sizes() -> dict[str, int]:
    """Bytes of each file, with prompts and rounds of the paper's LLaDA2.1-mini."""
    rng = np.random.default_rng(0)
    load = reference_workload()
    rows = []
    for i in range(REQUESTS):
        rounds = list(load.rounds_per_block[i])
        prompt = int(load.prompt_tokens[i])
        ids = rng.zipf(1.3, size=prompt) % 150_000
        times = np.sort(rng.random(5) * 1000)
        rows.append(
            {
                "request_id": f"{load.categories[i]}-{i:04d}",
                "category": load.categories[i],
                "dataset": load.categories[i],
                "split": "train",
                "prompt_sha256": rng.bytes(32).hex(),
                "words": prompt * 3 // 4,
                "newlines": prompt // 60,
                "prompt_tokens": prompt,
                "token_bins": token_bins(ids),
                "prompt_blocks": prompt // 32,
                "budget_tokens": BUDGET_TOKENS,
                "output_tokens": int(load.output_tokens[i]),
                "output_blocks": len(rounds),
                "rounds": sum(rounds),
                "rounds_per_block": rounds,
                "first_block_masked": 32 - prompt % 32,
                "finish_reason": "budget",
                "answer_correct": None,
                "arrival_s": 0.0,
                "admitted_s": times[1],
                "first_round_s": times[2],
                "first_block_s": times[3],
                "finished_s": times[4],
                "shard": i // 256,
            }
        )
    walls = 10 + 90 * rng.random(ROUNDS)
    filled = rng.integers(1, 129, ROUNDS)
    rounds_table = pa.table(
        {
            "shard": np.arange(ROUNDS) * 8 // ROUNDS,
            "index": np.arange(ROUNDS),
            "start_s": np.cumsum(walls) / 1000,
            "wall_ms": walls,
            "slots": filled,
            "prefill_slots": rng.integers(0, filled + 1),
            "kv_tokens": rng.integers(0, 10**6, ROUNDS),
            "residents": rng.integers(1, 129, ROUNDS),
            "waiting": rng.integers(0, 2048, ROUNDS),
        }
    ).cast(ROUNDS_SCHEMA)
    hidden = rng.normal(size=(REQUESTS, HIDDEN)).astype(np.float16)
    return {
        "requests": len(table_bytes(pa.Table.from_pylist(rows, schema=REQUESTS_SCHEMA))),
        "rounds": len(table_bytes(rounds_table)),
        "hidden": len(hidden_bytes(hidden)),
    }


def test_2048_requests_of_hidden_size_2048_take_less_than_20_mb(sizes: dict[str, int]) -> None:
    assert sum(sizes.values()) < 20e6, sizes


def test_the_plans_estimate_is_near(sizes: dict[str, int]) -> None:
    estimate = profile_bytes(load_recipe("llada2.1-mini"), REQUESTS)
    assert estimate == pytest.approx(sum(sizes.values()), rel=0.25), sizes
