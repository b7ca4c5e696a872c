"""Parquet files are read whatever their path looks like."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dwise_predict.tables import read_table


@pytest.mark.parametrize("name", ["s3:run", "file:x", "sp ace é"])
def test_names_that_look_like_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path(name)
    folder.mkdir()
    with (folder / "t.parquet").open("wb") as file:
        pq.write_table(pa.table({"a": [1, 2], "b": ["x", "y"]}), file)
    assert read_table(folder / "t.parquet", ["a"]).to_pydict() == {"a": [1, 2]}
