"""A workload with everything about its requests that does not depend on how they are served."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dwise_predict.profile import Profile
from dwise_predict.results.records import ESTIMATES, REQUESTS_SCHEMA, TIMES
from dwise_predict.simulation.workload import FloatArray, IntArray, SimulatedWorkload

FACTS_SCHEMA = pa.schema(
    [field for field in REQUESTS_SCHEMA if field.name not in {*TIMES, *ESTIMATES}]
)
"""Columns of a results folder's requests that are known before they are served."""


@dataclass(frozen=True)
class Source:
    """N requests to simulate.

    Attributes:
        name: what they are, for people.
        block_size: tokens of a block.
        facts: of :data:`FACTS_SCHEMA`, N rows.
        arrival_s: recorded arrivals, float64 [N]; None where none were recorded.
        profile: where the rounds come from; None for synthetic ones.
        rows: int64 [N], each request's row of ``profile``.
    """

    name: str
    block_size: int
    facts: pa.Table
    arrival_s: FloatArray | None = None
    profile: Profile | None = None
    rows: IntArray | None = None

    def __len__(self) -> int:
        return int(self.facts.num_rows)

    def workload(self, prefill_chunk: int | None = 1) -> SimulatedWorkload:
        """The requests as a replay takes them."""
        facts = self.facts
        return SimulatedWorkload(
            block_size=self.block_size,
            request_ids=tuple(facts["request_id"].to_pylist()),
            categories=tuple(facts["category"].to_pylist()),
            prompt_tokens=integers(facts, "prompt_tokens"),
            output_tokens=integers(facts, "output_tokens"),
            budget_tokens=integers(facts, "budget_tokens"),
            rounds_per_block=tuple(map(tuple, facts["rounds_per_block"].to_pylist())),
            prefill_chunk=prefill_chunk,
        )


def integers(table: pa.Table, name: str) -> IntArray:
    """A column without nulls as int64."""
    return np.asarray(table[name].to_numpy(), dtype=np.int64)


def facts_table(columns: Mapping[str, Any], n: int) -> pa.Table:
    """A table of :data:`FACTS_SCHEMA` from some columns; those left out must be nullable."""
    arrays = []
    for field in FACTS_SCHEMA:
        if field.name in columns:
            arrays.append(pa.array(columns[field.name], field.type))
        else:
            arrays.append(pa.nulls(n, field.type))
    return pa.Table.from_arrays(arrays, schema=FACTS_SCHEMA)
