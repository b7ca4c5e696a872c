"""Profile mode: what a scheduler process records, and the profile that is made of it.

A recording is a folder that only grows: ``recording.json`` says of what, and every start of the
server appends to a segment of its own. A killed server loses the requests in flight and nothing
else; the next start goes on.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from dwise_predict.errors import ProfileError
from dwise_predict.files import write_text
from dwise_predict.fingerprint import Fingerprint, fingerprint_differences
from dwise_predict.predictors.features import token_bins
from dwise_predict.profile import (
    REQUESTS_SCHEMA,
    ROUNDS_SCHEMA,
    Campaign,
    Records,
    WorkloadId,
    open_profile,
    utc_now,
)
from dwise_predict.profiling import workload_sha256
from dwise_predict.recipe import EngineSettings
from dwise_predict.sglang.metrics import Counts
from dwise_predict.sglang.requests import Row, Tracked
from dwise_predict.work import first_block_masked
from dwise_predict.workload.schema import Request, newline_count, word_count

_HEADER = "recording.json"


class Recording(BaseModel):
    """recording.json: what was served. The budget is left at 1: each request has its own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    fingerprint: Fingerprint
    slots: int


class Recorder:
    """Appends finished requests and rounds to a recording.

    Raises ProfileError when the folder cannot be written or is a recording of something else.
    """

    def __init__(self, folder: Path, fingerprint: Fingerprint, slots: int) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            own = Recording(fingerprint=fingerprint, slots=slots)
            if (folder / _HEADER).is_file():
                _require_same(folder, read_recording(folder), own)
            else:
                write_text(folder / _HEADER, own.model_dump_json(indent=1))
            number = 1 + max((int(p.stem) for p in _segments(folder)), default=0)
            # Appended to, line by line: what an atomic rewrite of the whole would cost grows.
            self._file = (folder / f"{number:05}.jsonl").open("x", encoding="ascii")
        except OSError as error:
            raise ProfileError(f"cannot record into {folder}: {error.strerror}") from error
        self._block_size = fingerprint.block_size
        self._segment = number
        self._index = 0

    def round(self, start_s: float, end_s: float, rows: Sequence[Row], counts: Counts) -> None:
        """Note one round; it reaches the disk with the next finished request."""
        self._write(
            {
                "shard": self._segment,
                "index": self._index,
                "start_s": start_s,
                "wall_ms": (end_s - start_s) * 1e3,
                "slots": len(rows),
                "prefill_slots": sum(row.prefill for row in rows),
                "kv_tokens": sum(row.prefix for row in rows),
                "residents": counts.residents,
                "waiting": counts.waiting,
            }
        )
        self._index += 1

    def request(self, tracked: Tracked, finished_s: float) -> None:
        """Keep a request that ended; one that never reached a denoising round has no label."""
        if tracked.hidden is None:
            return
        per_block = list(tracked.rounds_per_block)
        if tracked.rounds_in_block:
            per_block.append(tracked.rounds_in_block)
        self._write(
            {
                "request_id": tracked.req.rid,
                "words": tracked.words,
                "newlines": tracked.newlines,
                "prompt_tokens": tracked.prompt_tokens,
                "token_bins": token_bins(tracked.req.origin_input_ids),
                "prompt_blocks": tracked.prompt_blocks,
                "budget_tokens": tracked.budget_tokens,
                "output_tokens": len(tracked.req.output_ids_through_stop),
                "output_blocks": len(per_block),
                "rounds": sum(per_block),
                "rounds_per_block": per_block,
                "first_block_masked": first_block_masked(tracked.prompt_tokens, self._block_size),
                "finish_reason": _finish_reason(tracked.req),
                "arrival_s": tracked.arrival_s,
                "admitted_s": tracked.admitted_s,
                "first_round_s": tracked.first_round_s,
                "first_block_s": tracked.first_block_s,
                "finished_s": finished_s,
                "shard": self._segment,
                "hidden": base64.b64encode(tracked.hidden.tobytes()).decode("ascii"),
            }
        )
        self._file.flush()

    def _write(self, record: Mapping[str, object]) -> None:
        self._file.write(json.dumps(record) + "\n")


def _finish_reason(req: Any) -> str:
    kind = None if req.finished_reason is None else req.finished_reason.to_json()["type"]
    return {"stop": "eos", "length": "budget"}.get(str(kind), "abort")


def _require_same(folder: Path, old: Recording, new: Recording) -> None:
    differences = fingerprint_differences(old.fingerprint, new.fingerprint)
    if old.slots != new.slots:
        differences.append(f"slots: {old.slots} -> {new.slots}")
    if differences:
        raise ProfileError(
            f"{folder} is a recording of another server ({'; '.join(differences)}): choose "
            "another folder for DWISE_PROFILE"
        )


def _segments(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.jsonl") if path.stem.isdecimal())


def read_recording(folder: Path) -> Recording:
    """What a recording is of. Raises ProfileError when there is none or it is damaged."""
    try:
        return Recording.model_validate_json((folder / _HEADER).read_bytes())
    except (OSError, ValueError) as error:
        raise ProfileError(f"{folder} is no recording of the SGLang plugin: {error}") from error


def read_records(folder: Path) -> Iterator[dict[str, Any]]:
    """Every complete line of a recording; the last of a killed server may be cut and is left out.

    Raises ProfileError when a line is damaged elsewhere.
    """
    for path in _segments(folder):
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
    if record["words"] != record["words"]:  # NaN: the server saw tokens only
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
