"""The schema of a profile folder: what is recorded of a run, a request and a round."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from dwise_predict.fingerprint import Fingerprint, fingerprint_differences
from dwise_predict.recipe import EngineSettings

RUN_FILE = "run.json"
REQUESTS_FILE = "requests.parquet"
ROUNDS_FILE = "rounds.parquet"
HIDDEN_FILE = "first_round.safetensors"
HIDDEN_KEY = "hidden"
SHARDS_FOLDER = "shards"
DATA_FILES = (REQUESTS_FILE, ROUNDS_FILE, HIDDEN_FILE)
"""Every file of a finished profile but run.json, which holds their hashes."""
MAX_BYTES = 64 * 2**30
"""Most bytes of a profile's files together."""
MAX_JSON_BYTES = 4 * 2**20
"""Most bytes of run.json and the other descriptions."""

_REQUESTS = {
    "request_id": pa.string(),
    "category": pa.string(),
    "dataset": pa.string(),
    "split": pa.string(),
    "prompt_sha256": pa.string(),
    "words": pa.int32(),
    "newlines": pa.int32(),
    "prompt_tokens": pa.int32(),
    "token_bins": pa.list_(pa.uint16()),
    "prompt_blocks": pa.int32(),
    "budget_tokens": pa.int32(),
    "output_tokens": pa.int32(),
    "output_blocks": pa.int32(),
    "rounds": pa.int32(),
    "rounds_per_block": pa.list_(pa.int32()),
    "first_block_masked": pa.int32(),
    "finish_reason": pa.string(),
    "answer_correct": pa.bool_(),
    "arrival_s": pa.float64(),
    "admitted_s": pa.float64(),
    "first_round_s": pa.float64(),
    "first_block_s": pa.float64(),
    "finished_s": pa.float64(),
    "shard": pa.int32(),
}
_NULLABLE = {"split", "token_bins", "answer_correct", "first_block_s"}

REQUESTS_SCHEMA = pa.schema(
    [pa.field(name, kind, nullable=name in _NULLABLE) for name, kind in _REQUESTS.items()]
)
"""One row per request, in the order of the workload.

``split`` is null when the workload leaves the split to training, ``token_bins`` (see
:func:`~dwise_predict.predictors.features.token_bins`) when they were not recorded or not published,
``answer_correct`` when the
request has no answer to check, ``first_block_s`` when the request was aborted in its first block.
``rounds`` is the sum of ``rounds_per_block``, whose entries are the denoising rounds of each
output block, the committing forward included; ``output_blocks`` is their number. Times are
seconds since the start of the request's shard.
"""

ROUNDS_SCHEMA = pa.schema(
    [
        pa.field("shard", pa.int32(), nullable=False),
        pa.field("index", pa.int32(), nullable=False),
        pa.field("start_s", pa.float64(), nullable=False),
        pa.field("wall_ms", pa.float64(), nullable=False),
        pa.field("slots", pa.int32(), nullable=False),
        pa.field("prefill_slots", pa.int32(), nullable=False),
        pa.field("kv_tokens", pa.int64(), nullable=False),
        pa.field("residents", pa.int32(), nullable=False),
        pa.field("waiting", pa.int32(), nullable=False),
    ]
)
"""One row per round, by shard and index; ``start_s`` counts from the start of the shard,
``kv_tokens`` are the cached tokens that the round's slots attended to."""

LABEL_COLUMNS = tuple(name for name in _REQUESTS if not name.endswith("_s"))
"""Columns of requests.parquet that repeat exactly when a workload is profiled again."""


Batching = Literal["stock", "mixed"]
"""Rounds of one phase, prompts first, as SGLang forms them; or rounds of both phases."""


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class WorkloadId(_Record):
    """Which prompts were served."""

    name: str
    sha256: str = Field(description="Over all requests with their order, prompts and budgets.")
    requests: int = Field(gt=0)


class Campaign(_Record):
    """What a profile is a profile of; fixed before its first shard is served."""

    format: Literal["dwise-profile"] = "dwise-profile"
    format_version: Literal[1] = 1
    fingerprint: Fingerprint
    workload: WorkloadId
    seed: int
    engine: EngineSettings = Field(description="Device and threads resolved.")
    batching: Batching = "stock"
    shard_requests: int = Field(gt=0)
    library_version: str
    started_at: datetime

    @property
    def shards(self) -> int:
        """Number of shards."""
        return -(-self.workload.requests // self.shard_requests)

    def shard_rows(self, shard: int) -> range:
        """Rows of the workload that ``shard`` serves."""
        start = shard * self.shard_requests
        return range(start, min(start + self.shard_requests, self.workload.requests))


class Counts(_Record):
    """Rows of a profile."""

    requests: int
    rounds: int


class RunInfo(Campaign):
    """run.json of a finished profile."""

    finished_at: datetime
    counts: Counts
    files: dict[str, str] = Field(description="SHA-256 of every other file.")


class ShardInfo(_Record):
    """shard.json of a finished shard."""

    shard: int
    files: dict[str, str] = Field(description="SHA-256 of every other file.")


def campaign_differences(old: Campaign, new: Campaign) -> list[str]:
    """One line per reason why shards of ``old`` cannot be continued by ``new``.

    The library's version and the start time do not matter: the fingerprint says what does.
    """
    lines = [f"fingerprint.{x}" for x in fingerprint_differences(old.fingerprint, new.fingerprint)]
    for name in ("workload", "seed", "engine", "batching", "shard_requests"):
        before, after = getattr(old, name), getattr(new, name)
        if isinstance(before, BaseModel):
            lines += [
                f"{name}.{key}: {getattr(before, key)} -> {getattr(after, key)}"
                for key in type(before).model_fields
                if getattr(before, key) != getattr(after, key)
            ]
        elif before != after:
            lines.append(f"{name}: {before} -> {after}")
    return lines
