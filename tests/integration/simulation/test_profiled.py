"""Profiles whose hashes are right and whose content cannot be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dwise_predict.profile import REQUESTS_SCHEMA
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
        ({"rounds_per_block": [2**31 - 1], "rounds": 2**31 - 1}, "': rounds is above 1048576"),
        ({"prompt_tokens": 2**31 - 1}, "' needs 134,"),
    ],
)
def test_requests_that_would_take_for_ever_are_refused(
    tmp_path: Path, folder: Path, values: dict[str, object], message: str
) -> None:
    change(folder, values)
    result = dwise(
        "simulate", "--profile", folder, "--cost", "1,1,0", "--policy", "fcfs", cwd=tmp_path
    )
    assert result.returncode == 2
    assert f"request 'eval-1{message}" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_rounds_that_cannot_be_are_one_sentence(tmp_path: Path, folder: Path, value: float) -> None:
    rows = read_table(folder / "rounds.parquet").to_pylist() * 5
    rows[3]["wall_ms"] = value
    schema = read_table(folder / "rounds.parquet").schema
    replace_table(folder, "rounds.parquet", pa.Table.from_pylist(rows, schema=schema))
    result = dwise("simulate", "--profile", folder, "--policy", "fcfs", cwd=tmp_path)
    assert result.returncode == 2
    assert f"rounds.parquet: round 3: wall_ms is {'nan' if np.isnan(value) else 'not finite'}" in (
        result.stderr
    )
    assert result.stderr.count("\n") == 1
