"""Profiles whose hashes are right and whose content cannot be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dwise_predict.errors import SimulationError
from dwise_predict.profile import REQUESTS_SCHEMA, read_profile
from dwise_predict.simulation.sources import profile_source
from dwise_predict.tables import read_table
from tests.runs import dwise
from tests.synthetic import replace_table, synthetic_examples, write_profile


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_profile(
        tmp_path / "profile", synthetic_examples(6, 1, 16), synthetic_examples(4, 2, 16)
    )


def change(folder: Path, values: dict[str, object]) -> None:
    """Change the request eval-1."""
    rows = read_table(folder / "requests.parquet").to_pylist()
    next(row for row in rows if row["request_id"] == "eval-1").update(values)
    replace_table(folder, "requests.parquet", pa.Table.from_pylist(rows, schema=REQUESTS_SCHEMA))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"request_id": "eval-0"}, "two requests are called 'eval-0'"),
        ({"rounds_per_block": []}, r"'eval-1' has \d+ rounds, by block \[\]"),
        ({"rounds_per_block": [0], "rounds": 0}, r"'eval-1' has 0 rounds, by block \[0\]"),
        ({"rounds_per_block": [3, -1], "rounds": 2}, r"by block \[3, -1\]"),
        ({"rounds_per_block": [None]}, "'eval-1' lacks a value"),
        ({"rounds": 1, "rounds_per_block": [2]}, r"has 1 rounds, by block \[2\]"),
        ({"prompt_tokens": -7}, "'eval-1' has -7 prompt"),
        ({"output_tokens": -1}, "-1 output"),
        ({"budget_tokens": 0}, "0 budget tokens"),
    ],
)
def test_requests_that_cannot_be_are_named(
    folder: Path, values: dict[str, object], message: str
) -> None:
    change(folder, values)
    with pytest.raises(SimulationError, match=f"the profile is damaged: .*{message}"):
        profile_source(read_profile(folder))


@pytest.mark.parametrize(
    "values",
    [
        {"rounds_per_block": [2**31 - 1], "rounds": 2**31 - 1},
        {"prompt_tokens": 2**31 - 1},
    ],
)
def test_requests_that_would_take_for_ever_are_refused(
    tmp_path: Path, folder: Path, values: dict[str, object]
) -> None:
    change(folder, values)
    result = dwise(
        "simulate", "--profile", folder, "--cost", "1,1,0", "--policy", "fcfs", cwd=tmp_path
    )
    assert result.returncode == 2
    assert "request 'eval-1' needs" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_rounds_that_cannot_be_are_one_sentence(tmp_path: Path, folder: Path, value: float) -> None:
    rows = read_table(folder / "rounds.parquet").to_pylist() * 5
    rows[3]["wall_ms"] = value
    schema = read_table(folder / "rounds.parquet").schema
    replace_table(folder, "rounds.parquet", pa.Table.from_pylist(rows, schema=schema))
    result = dwise("simulate", "--profile", folder, "--policy", "fcfs", cwd=tmp_path)
    assert result.returncode == 2
    assert "the profile's rounds hold times, slots or KV tokens that cannot be" in result.stderr
    assert result.stderr.count("\n") == 1
