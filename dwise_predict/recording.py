"""Recordings that the SGLang plugin makes, and the profile that is made of one.

A recording is a folder that only grows: ``recording.json`` says of what, and every start of the
server appends to a segment of its own. A killed server loses the requests in flight and nothing
else; the next start goes on.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from dwise_predict.errors import ProfileError
from dwise_predict.fingerprint import Fingerprint
from dwise_predict.profile import (
    REQUESTS_SCHEMA,
    ROUNDS_SCHEMA,
    Campaign,
    Records,
    WorkloadId,
    open_profile,
    utc_now,
)
from dwise_predict.recipe import EngineSettings
from dwise_predict.workload.schema import (
    Request,
    newline_count,
    word_count,
    workload_sha256,
)

HEADER = "recording.json"


class Recording(BaseModel):
    """recording.json: what was served, and in which order.

    The budget of ``fingerprint`` is left at 1: each request has its own.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    fingerprint: Fingerprint
    slots: int
    policy: str = "fcfs"


def segments(folder: Path) -> list[Path]:
    """Files of a recording, one for each start of the server, in order."""
    return sorted(path for path in folder.glob("*.jsonl") if path.stem.isdecimal())


def read_recording(folder: Path) -> Recording:
    """What a recording is of. Raises ProfileError when there is none or it is damaged."""
    try:
        return Recording.model_validate_json((folder / HEADER).read_bytes())
    except (OSError, ValueError) as error:
        raise ProfileError(f"{folder} is no recording of the SGLang plugin: {error}") from error


def read_records(folder: Path) -> Iterator[dict[str, Any]]:
    """Every complete line of a recording; the last of a killed server may be cut and is left out.

    Raises ProfileError when a line is damaged elsewhere.
    """
    for path in segments(folder):
        lines = path.read_bytes().split(b"\n")
        for number, line in enumerate(lines[:-1], start=1):
            try:
                yield json.loads(line)
            except ValueError as error:
                raise ProfileError(
                    f"{path} is damaged in line {number}: delete it, its requests are served again"
                ) from error


def recorded_requests(folder: Path) -> dict[str, dict[str, Any]]:
    """Records of requests that were served to their end, by request id; a later one wins."""
    return {
        record["request_id"]: record
        for record in read_records(folder)
        if "request_id" in record and record["finish_reason"] != "abort"
    }


def assemble_profile(
    recording: Path,
    requests: Sequence[Request],
    out: Path,
    *,
    workload: str,
    seed: int,
    budget_tokens: int,
    correct: Mapping[str, bool] | None = None,
) -> Path:
    """Make the profile folder ``out`` of a recording in which every request was served.

    Requests are found by their id, which clients send as ``rid``; ``correct`` says of checkable
    ones whether the answer was right. Returns ``out``.

    Raises ProfileError when requests are missing (some are named) or ``out`` cannot be written.
    """
    header, records = read_recording(recording), recorded_requests(recording)
    if missing := [r.request_id for r in requests if r.request_id not in records]:
        raise ProfileError(
            f"{recording} lacks {len(missing)} of {len(requests)} requests "
            f"({', '.join(missing[:3])}{', …' if len(missing) > 3 else ''}): send them again"
        )
    served = [records[request.request_id] for request in requests]
    rows = [
        _row(request, record, (correct or {}).get(request.request_id))
        for request, record in zip(requests, served, strict=True)
    ]
    rounds = [record for record in read_records(recording) if "request_id" not in record]
    fingerprint = header.fingerprint.model_copy(update={"budget_tokens": budget_tokens})
    campaign = Campaign(
        fingerprint=fingerprint,
        workload=WorkloadId(
            name=workload, sha256=workload_sha256(requests), requests=len(requests)
        ),
        seed=seed,
        engine=EngineSettings.model_validate(
            {"name": "sglang", "slots": header.slots, "dtype": fingerprint.dtype}
        ),
        shard_requests=len(requests),
        library_version=version("dwise-predict"),
        started_at=utc_now(),
    )
    hidden = [np.frombuffer(base64.b64decode(record["hidden"]), np.float16) for record in served]
    with open_profile(out, campaign) as writer:
        if writer.missing():
            writer.write_shard(
                0,
                Records(
                    requests=pa.Table.from_pylist(rows, schema=REQUESTS_SCHEMA),
                    rounds=pa.Table.from_pylist(rounds, schema=ROUNDS_SCHEMA),
                    hidden=np.stack(hidden),
                ),
            )
        writer.finish()
    return out


def _row(request: Request, record: dict[str, Any], correct: bool | None) -> dict[str, object]:
    row = {name: record[name] for name in REQUESTS_SCHEMA.names if name in record}
    if math.isnan(record["words"]):  # a server without a tokenizer
        row |= {"words": word_count(request.text), "newlines": newline_count(request.text)}
    return row | {
        "words": int(row["words"]),
        "newlines": int(row["newlines"]),
        "category": request.category,
        "dataset": request.dataset,
        "split": request.split,
        "prompt_sha256": request.prompt_sha256,
        "answer_correct": correct,
    }
