"""Parquet tables, read on the calling thread.

Arrow's own thread pools may still be starting when a short process ends, which then aborts with
"terminate called without an active exception" (Arrow 26: 6 of 60 exits on a busy machine, 0 of 60
without threads). Our tables are small, so threads would gain nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq


def read_table(source: Path | pa.NativeFile, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a Parquet file, or the given columns of it."""
    if isinstance(source, Path):
        # As bytes: Arrow takes names like "s3:run" for addresses.
        source = pa.BufferReader(source.read_bytes())
    return pq.read_table(
        source,
        columns=None if columns is None else list(columns),
        use_threads=False,
        pre_buffer=False,
    )


def evaluation_rows(table: pa.Table) -> pa.Table:
    """Rows whose ``split`` is "eval"."""
    # A mask, not an expression: expressions are run by Arrow's thread pool.
    return table.filter(pc.equal(table["split"], "eval"))
