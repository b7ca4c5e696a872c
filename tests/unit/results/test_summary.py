"""Figures of summary.json on a run small enough to work out by hand."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dwise_predict.results import (
    REQUESTS_SCHEMA,
    ROUNDS_SCHEMA,
    Conditions,
    requests_table,
    summarise,
)
from tests.results import facts, rounds_table

CONDITIONS = Conditions("dwise", "mixed_phase", "simulator", "burst", 4, 3, 1, 2)


def served() -> pa.Table:
    """Two chats of 2 s and 4 s and a math request of 9 s that never committed a block."""
    return requests_table(
        facts(["chat", "chat", "math"]),
        {
            "arrival_s": [0.0, 1.0, 1.0],
            "admitted_s": [0.0, 1.0, 1.0],
            "first_round_s": [0.5, 2.0, 3.0],
            "first_block_s": [1.0, 3.0, float("nan")],
            "finished_s": [2.0, 5.0, 10.0],
        },
        {"admission_estimate": [1.0, 2.0, 3.0], "refined_estimate": [0.5, float("nan"), 2.0]},
    )


def test_tables_have_the_documented_columns_and_nulls_for_what_did_not_happen() -> None:
    table = served()
    assert table.schema.equals(REQUESTS_SCHEMA)
    assert table["first_block_s"].to_pylist() == [1.0, 3.0, None]
    assert table["refined_estimate"].to_pylist() == [0.5, None, 2.0]
    assert "shard" not in REQUESTS_SCHEMA.names + ROUNDS_SCHEMA.names


def test_an_untold_policy_has_null_estimates() -> None:
    times = {name: [0.0] for name in ("arrival_s", "admitted_s", "first_round_s")}
    table = requests_table(
        facts(["chat"]), {**times, "first_block_s": [1.0], "finished_s": [1.0]}, {}
    )
    assert table["admission_estimate"].to_pylist() == [None]


def test_figures_by_hand() -> None:
    rounds = rounds_table(wall_ms=[10.0, 30.0, 60.0], slots=[1, 4, 4], prefill_slots=[1, 0, 4])
    summary = summarise(served(), rounds, CONDITIONS)
    assert summary.n == 3
    assert summary.latency_s.model_dump() == pytest.approx(
        {"mean": 5.0, "p50": 4.0, "p90": 8.0, "p99": 8.9, "max": 9.0}
    )
    assert summary.first_block_s is not None
    assert summary.first_block_s.model_dump() == pytest.approx(
        {"mean": 1.5, "p50": 1.5, "p99": 1.99}
    )
    assert summary.throughput_rps == pytest.approx(0.3)
    assert summary.rounds == 3
    assert summary.prefill_only_rounds == pytest.approx(2 / 3)
    assert summary.prefill_only_time == pytest.approx(0.7)
    assert summary.filled_slots == pytest.approx(3.0)
    assert summary.idle_slots == pytest.approx(0.25)
    assert summary.preemptions_per_request == pytest.approx(1.0)
    assert summary.reached_zero == pytest.approx(1 / 3)
    assert summary.blocked_by_cap == pytest.approx(2 / 3)
    assert set(summary.by_category) == {"chat", "math"}
    assert summary.by_category["chat"].n == 2
    assert summary.by_category["chat"].latency_s.mean == pytest.approx(3.0)
    assert summary.by_category["math"].first_block_s is None


def test_keys_are_those_of_the_contract() -> None:
    summary = summarise(served(), rounds_table([1.0], [1], [0]), CONDITIONS).model_dump()
    assert list(summary) == [
        "policy", "former", "engine", "arrival", "n", "latency_s", "first_block_s",
        "throughput_rps", "rounds", "prefill_only_rounds", "prefill_only_time", "idle_slots",
        "filled_slots", "preemptions_per_request", "reached_zero",
        "blocked_by_cap", "by_category",
    ]  # fmt: skip
    assert list(summary["latency_s"]) == ["mean", "p50", "p90", "p99", "max"]
    assert list(summary["first_block_s"]) == ["mean", "p50", "p99"]
