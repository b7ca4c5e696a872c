"""The schema of a results folder (docs/simulator.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from dwise_predict.profile import REQUESTS_SCHEMA as PROFILE_REQUESTS
from dwise_predict.profile import ROUNDS_SCHEMA as PROFILE_ROUNDS

REQUESTS_FILE = "requests.parquet"
ROUNDS_FILE = "rounds.parquet"
SUMMARY_FILE = "summary.json"

TIMES = ("arrival_s", "admitted_s", "first_round_s", "first_block_s", "finished_s")
ESTIMATES = ("admission_estimate", "refined_estimate")
_OF_PROFILES = {"token_bins", "shard"}
_UNKNOWN_TO_SOME = {"prompt_sha256", "words", "newlines"}

REQUESTS_SCHEMA = pa.schema(
    [
        field.with_nullable(True) if field.name in _UNKNOWN_TO_SOME else field
        for field in PROFILE_REQUESTS
        if field.name not in _OF_PROFILES
    ]
    + [pa.field(name, pa.float64()) for name in ESTIMATES]
)
"""One row per request: a profile's columns without ``token_bins`` and ``shard``, and the policy's
estimates.

``prompt_sha256``, ``words`` and ``newlines`` are null where no prompt exists (synthetic requests).
``admission_estimate`` is what the policy was told at arrival, in its own unit (rounds for
``dwise``), ``refined_estimate`` the remaining rounds that it was told after the first
denoising round; null where it was told nothing. Times are seconds since serving began.
"""

ROUNDS_SCHEMA = pa.schema([field for field in PROFILE_ROUNDS if field.name != "shard"])
"""One row per round, in order: a profile's columns without ``shard``."""


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class FirstBlock(_Record):
    """Seconds from arrival until the first output block was committed."""

    mean: float
    p50: float
    p99: float


class Latency(_Record):
    """Seconds from arrival to the end."""

    mean: float
    p50: float
    p90: float
    p99: float
    max: float


class CategorySummary(_Record):
    """Requests of one category."""

    n: int = Field(gt=0)
    latency_s: Latency
    first_block_s: FirstBlock | None


class Summary(_Record):
    """summary.json."""

    policy: str
    former: str
    engine: str = Field(description="Who served: simulator, torch, sglang.")
    arrival: str = Field(description="Pattern of the arrivals.")
    n: int = Field(gt=0, description="Requests.")
    latency_s: Latency = Field(description="Over all requests, aborted ones included.")
    first_block_s: FirstBlock | None = Field(
        description="Over the requests that committed a block; null when none did."
    )
    throughput_rps: float = Field(
        description="Requests over the seconds from the first arrival to the last end."
    )
    rounds: int = Field(gt=0)
    prefill_only_rounds: float = Field(description="Share of the rounds without a denoising block.")
    prefill_only_time: float = Field(description="Share of the rounds' time spent in them.")
    idle_slots: float = Field(description="Share of slots left empty, mean over rounds.")
    filled_slots: float = Field(description="Slots filled in a round, mean over rounds.")
    preemptions_per_request: float
    reached_zero: float = Field(
        description="Share of requests that went on after their estimate had fallen to zero."
    )
    blocked_by_cap: float = Field(
        default=0.0, description="Share of rounds in which the resident cap kept a request out."
    )
    by_category: dict[str, CategorySummary]


def requests_table(
    facts: pa.Table, times: Mapping[str, Any], estimates: Mapping[str, Any]
) -> pa.Table:
    """The requests of a results folder.

    Args:
        facts: columns of :data:`REQUESTS_SCHEMA` that do not depend on how requests were served,
            at least; others are replaced.
        times: float64 [N] for each of :data:`TIMES`; NaN where something did not happen.
        estimates: float64 [N] for any of :data:`ESTIMATES`; NaN where nothing was told.
    """
    told = {
        name: pa.array(np.asarray(values, dtype=np.float64), from_pandas=True)
        for name, values in {**times, **estimates}.items()
    }
    columns = []
    for field in REQUESTS_SCHEMA:
        if field.name in told:
            columns.append(told[field.name])
        elif field.name in ESTIMATES:
            columns.append(pa.nulls(facts.num_rows, field.type))
        else:
            columns.append(facts[field.name].combine_chunks())
    return pa.Table.from_arrays(columns, schema=REQUESTS_SCHEMA)
