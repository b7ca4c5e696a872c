"""Recordings that the SGLang plugin makes; :mod:`dwise_predict.assembly` makes profiles of them.

A recording is a folder that only grows: ``recording.json`` says of what, and every start of the
server appends to a segment of its own. A killed server loses the requests in flight and nothing
else; the next start goes on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from dwise_predict.errors import ProfileError
from dwise_predict.fingerprint import Fingerprint
from dwise_predict.profile import Batching
from dwise_predict.recording_records import parse_record
from dwise_predict.workload.schema import Request

HEADER = "recording.json"


class Recording(BaseModel):
    """recording.json: what was served, and in which order.

    The budget of ``fingerprint`` is left at 1: each request has its own.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    fingerprint: Fingerprint
    slots: int = Field(ge=1)
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

    Raises ProfileError when another line is damaged or no possible record
    (:mod:`dwise_predict.recording_records`).
    """
    for path in segments(folder):
        lines = path.read_bytes().split(b"\n")
        for number, line in enumerate(lines[:-1], start=1):
            try:
                yield parse_record(line)
            except ValueError as error:
                raise ProfileError(
                    f"{path} is damaged in line {number} ({error}): delete the file, its requests "
                    "are served again"
                ) from error


def recorded_requests(folder: Path) -> dict[str, dict[str, Any]]:
    """Records of requests that were served to their end, by request id; a later one wins."""
    return {
        record["request_id"]: record
        for record in read_records(folder)
        if "request_id" in record and record["finish_reason"] != "abort"
    }


def campaign_tag(requests: Sequence[Request], batching: Batching) -> str:
    """What tells the records of a campaign from those of others on the same servers.

    It depends on the requests, their order, prompts and own budgets, and on how rounds are formed;
    not on categories, splits and answers.
    """
    lines = [f"{r.request_id}\x1f{r.prompt_sha256}\x1f{r.max_new_tokens}" for r in requests]
    return hashlib.sha256("\x1e".join([batching, *lines]).encode()).hexdigest()[:12]


def recorded_id(request_id: str, tag: str) -> str:
    """The id (``rid``) under which a campaign sends a request."""
    return f"{request_id}@{tag}"
