from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest

from dwise_predict.profile.records import REQUESTS_SCHEMA, ROUNDS_SCHEMA
from dwise_predict.profile.values import wrong_request, wrong_round

REQUEST = {
    "request_id": "a",
    "category": "chat",
    "dataset": "own",
    "split": "train",
    "prompt_sha256": "0" * 64,
    "words": 0,
    "newlines": 0,
    "prompt_tokens": 9,
    "token_bins": [1, 2],
    "prompt_blocks": 2,
    "budget_tokens": 16,
    "output_tokens": 5,
    "output_blocks": 2,
    "rounds": 4,
    "rounds_per_block": [3, 1],
    "first_block_masked": 3,
    "finish_reason": "eos",
    "answer_correct": None,
    "arrival_s": 0.0,
    "admitted_s": 0.1,
    "first_round_s": 0.2,
    "first_block_s": None,
    "finished_s": 0.4,
    "shard": 0,
}
ROUND = {
    "shard": 0,
    "index": 0,
    "start_s": 0.0,
    "wall_ms": 1.5,
    "slots": 2,
    "prefill_slots": 0,
    "kv_tokens": 8,
    "residents": 2,
    "waiting": 0,
}


def requests(*changes: dict[str, object]) -> pa.Table:
    """One request for each of ``changes``, in chunks and not at the start of their buffers."""
    rows = [{**REQUEST, "request_id": str(i), **change} for i, change in enumerate(changes)]
    first = pa.Table.from_pylist([{**REQUEST, "rounds_per_block": [7]}, rows[0]], REQUESTS_SCHEMA)
    return pa.concat_tables([first.slice(1), pa.Table.from_pylist(rows[1:], REQUESTS_SCHEMA)])


def hidden(n: int) -> np.ndarray:
    return np.ones((n, 8), dtype=np.float16)


def test_requests_that_can_be_pass() -> None:
    table = requests(
        {},
        {"finish_reason": "abort", "output_tokens": 0, "token_bins": None, "first_block_s": 0.3},
        {"finish_reason": "budget", "output_tokens": 16, "rounds": 5, "rounds_per_block": [4, 1]},
        {"token_bins": []},
    )
    assert wrong_request(table, hidden(4)) is None
    assert wrong_request(table.slice(0, 0), hidden(0)) is None


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        ({"words": -1}, "words is -1, at least 0 is possible"),
        ({"budget_tokens": 0}, "budget_tokens is 0, at least 1 is possible"),
        ({"rounds": 0, "rounds_per_block": []}, "rounds is 0, at least 1"),
        ({"rounds": 2**30, "rounds_per_block": [2**30 - 1, 1]}, "rounds is above 1048576"),
        ({"rounds": 5}, r"has 5 rounds in 2 output blocks, by block \[3, 1\]"),
        ({"output_blocks": 3}, r"has 4 rounds in 3 output blocks, by block \[3, 1\]"),
        ({"rounds_per_block": [4, 0]}, r"has 4 rounds in 2 output blocks, by block \[4, 0\]"),
        ({"rounds_per_block": [4, None]}, r"has 4 rounds in 2 output blocks, by block \[4, None\]"),
        ({"output_tokens": 17}, "output_tokens is above budget_tokens"),
        ({"finish_reason": "length"}, "finish_reason is none of eos, budget, abort"),
        ({"token_bins": [1, None]}, "token_bins has an empty entry"),
        ({"finished_s": np.nan}, "a time is not finite"),
        ({"first_block_s": np.inf}, "a time is not finite"),
        ({"request_id": "0"}, "this id was there before"),
    ],
)
def test_requests_that_cannot_be_are_named(change: dict[str, object], finding: str) -> None:
    table = requests({}, {"token_bins": None}, change, {})
    name = change.get("request_id", "2")
    found = wrong_request(table, hidden(4))
    assert found is not None and re.match(f"request '{name}':? {finding}", found)


def test_a_hidden_mean_that_is_not_finite_is_named() -> None:
    means = hidden(3)
    means[1, 4] = np.inf
    found = wrong_request(requests({}, {}, {}), means)
    assert found == "request '1': its hidden mean is not finite"


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        ({"slots": 0}, "slots is 0, at least 1 is possible"),
        ({"kv_tokens": -5}, "kv_tokens is -5, at least 0 is possible"),
        ({"wall_ms": np.nan}, "wall_ms is nan"),
        ({"wall_ms": np.inf}, "wall_ms is not finite"),
        ({"start_s": np.nan}, "start_s is not finite"),
        ({"prefill_slots": 3}, "prefill_slots is above slots"),
    ],
)
def test_rounds_that_cannot_be_are_named(change: dict[str, object], finding: str) -> None:
    assert wrong_round(pa.Table.from_pylist([ROUND, ROUND], ROUNDS_SCHEMA)) is None
    found = wrong_round(pa.Table.from_pylist([ROUND, {**ROUND, **change}], ROUNDS_SCHEMA))
    assert found is not None and found.startswith(f"round 1: {finding}")
