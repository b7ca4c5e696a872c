"""Makes the profile of a campaign, or of live traffic, from the recordings of its servers."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dwise_predict.errors import ProfileError
from dwise_predict.fingerprint import fingerprint_differences
from dwise_predict.profile import (
    REQUESTS_SCHEMA,
    ROUNDS_SCHEMA,
    Batching,
    Campaign,
    Records,
    WorkloadId,
    open_profile,
    utc_now,
)
from dwise_predict.recipe import EngineSettings
from dwise_predict.recording import Recording, campaign_tag, read_recording, read_records
from dwise_predict.workload.schema import Request, newline_count, word_count, workload_sha256

LIVE = "live"
"""Category, data set and workload name of recorded live traffic."""
EVAL_SHARE = 0.33
"""Share of live prompts that are held out."""
_HEALTH_CHECKS = "HEALTH_CHECK"
"""How the ids of requests begin that SGLang sends to itself."""
_TEMPLATE_WORDS = 2
"""By how many words prompts of as many messages may differ in what the chat template adds."""
_LABELS = ("rounds_per_block", "output_tokens", "finish_reason")


@dataclass(frozen=True)
class Joined:
    """What several recordings hold of one campaign.

    Attributes:
        recording: what was served.
        records: of requests served to their end, by request id; of several, the last.
        rounds: of all servers, with the shards of each in a range of its own.
        repeated: requests that were recorded more than once.
        differing: ids of those whose labels were not the same each time.
    """

    recording: Recording
    records: dict[str, dict[str, Any]]
    rounds: list[dict[str, Any]]
    repeated: int
    differing: tuple[str, ...]


def join_recordings(folders: Sequence[Path], tag: str | None = None) -> Joined:
    """Read recordings of one or more servers, in the order in which a later record wins.

    A folder that is named twice is read once.

    ``tag`` is taken off the ids of the campaign's requests (see
    :func:`~dwise_predict.recording.campaign_tag`); other ids are left as they are.

    Raises ProfileError when one is none, is damaged, or is of something else than the first.
    """
    first = read_recording(folders[0])
    records: dict[str, dict[str, Any]] = {}
    rounds: list[dict[str, Any]] = []
    seen: set[str] = set()
    repeated: set[str] = set()
    differing: dict[str, None] = {}
    shards = 0
    for folder in {folder.resolve(): folder for folder in folders}.values():
        _require_same(folders[0], first, folder, read_recording(folder))
        before = shards
        for record in read_records(folder):
            record["shard"] += before
            shards = max(shards, record["shard"])
            if "request_id" not in record:
                rounds.append(record)
                continue
            if record["finish_reason"] == "abort":
                continue
            if (size := len(_hidden(record))) != first.fingerprint.hidden_size:
                raise ProfileError(
                    f"{folder}: the hidden mean of request {record['request_id']} has {size} "
                    f"numbers, the model {first.fingerprint.hidden_size}: it is damaged"
                )
            request_id = _own_id(record["request_id"], tag)
            if request_id in seen:
                repeated.add(request_id)
                if any(record[name] != records[request_id][name] for name in _LABELS):
                    differing[request_id] = None
            seen.add(request_id)
            records[request_id] = record
    return Joined(first, records, rounds, len(repeated), tuple(differing))


def missing_requests(
    joined: Joined, requests: Iterable[Request], budget_tokens: int
) -> list[Request]:
    """Requests without a record under their own budget (``budget_tokens``: of those without)."""
    return [
        request
        for request in requests
        if request.request_id not in joined.records
        or joined.records[request.request_id]["budget_tokens"]
        != (request.max_new_tokens or budget_tokens)
    ]


def assemble_profile(
    recordings: Path | Sequence[Path],
    requests: Sequence[Request],
    out: Path,
    *,
    workload: str,
    seed: int,
    budget_tokens: int,
    correct: Mapping[str, bool] | None = None,
    batching: Batching = "stock",
) -> Path:
    """Make the profile folder ``out`` of recordings in which every request was served.

    Requests are found by their id, which clients send as ``rid``; ``correct`` says of checkable
    ones whether the answer was right. Returns ``out``.

    Raises ProfileError when recordings differ, requests are missing (some are named) or ``out``
    cannot be written.
    """
    folders = [recordings] if isinstance(recordings, Path) else list(recordings)
    joined = join_recordings(folders, campaign_tag(requests, batching))
    if missing := missing_requests(joined, requests, budget_tokens):
        names = ", ".join(request.request_id for request in missing[:3])
        raise ProfileError(
            f"{', '.join(map(str, folders))}: {len(missing)} of {len(requests)} requests are "
            f"missing ({names}{', …' if len(missing) > 3 else ''}): send them again"
        )
    served = [joined.records[request.request_id] for request in requests]
    _require_prompts(folders, requests, served)
    judged = correct or {}
    rows = [
        _row(record, _labels(request, judged.get(request.request_id)), request.text)
        for request, record in zip(requests, served, strict=True)
    ]
    identity = WorkloadId(name=workload, sha256=workload_sha256(requests), requests=len(requests))
    return _write(out, joined, served, rows, identity, seed, budget_tokens, batching)


def assemble_live_profile(
    recordings: Sequence[Path], out: Path, seed: int = 0
) -> tuple[int, Joined]:
    """Make the profile folder ``out`` of all that was recorded of live traffic.

    The category is "live". A prompt's hash decides on which side of the split it is, so that it
    stays there when more traffic is added. The budget of most requests is the profile's. Returns
    how many requests it has, and what was joined.

    Raises ProfileError when recordings differ, there is nothing in them, or they lack what a
    profile needs.
    """
    joined = join_recordings(recordings)
    served = {
        request_id: record
        for request_id, record in joined.records.items()
        if not request_id.startswith(_HEALTH_CHECKS)
    }
    if not served:
        raise ProfileError(f"{', '.join(map(str, recordings))}: no finished request is recorded")
    lacking = [name for name, record in served.items() if "prompt_sha256" not in record]
    if lacking:
        raise ProfileError(
            f"{len(lacking)} requests ({lacking[0]}, …) were recorded without a hash of their "
            "prompt, by an earlier version: give their prompts with --workload"
        )
    rows = [_row(record, _live_labels(record, seed), None) for record in served.values()]
    digest = hashlib.sha256(
        json.dumps([[row["request_id"], row["prompt_sha256"]] for row in rows]).encode()
    ).hexdigest()
    identity = WorkloadId(name=LIVE, sha256=digest, requests=len(rows))
    budget = statistics.mode(record["budget_tokens"] for record in served.values())
    _write(
        out,
        joined,
        list(served.values()),
        rows,
        identity,
        seed,
        budget,
        _batching(joined.recording),
    )
    return len(rows), joined


def _batching(recording: Recording) -> Batching:
    """How rounds of live traffic were formed: the plugin mixes phases where it schedules."""
    return "stock" if recording.policy == "fcfs" else "mixed"


def _require_same(place: Path, first: Recording, other_place: Path, other: Recording) -> None:
    differences = fingerprint_differences(first.fingerprint, other.fingerprint)
    if first.slots != other.slots:
        differences.append(f"slots: {first.slots} -> {other.slots}")
    if _batching(first) != _batching(other):
        differences.append(f"policy: {first.policy} -> {other.policy}")
    if differences:
        raise ProfileError(
            f"{place} and {other_place} are recordings of different servers "
            f"({'; '.join(differences)}): their labels do not belong into one profile"
        )


def _require_prompts(
    folders: Sequence[Path], requests: Sequence[Request], served: Sequence[Mapping[str, Any]]
) -> None:
    """Refuse records that have a request's id and are of another prompt.

    Ids that a campaign sent depend on the prompts. Of others only words are known, counted after
    the chat template, which adds about as many to every prompt of as many messages.
    """
    added: dict[int, dict[str, float]] = {}
    for request, record in zip(requests, served, strict=True):
        if record["request_id"] == request.request_id and not math.isnan(record["words"]):
            more = record["words"] - word_count(request.text)
            added.setdefault(len(request.messages), {})[request.request_id] = more
    others = [
        request_id
        for group in added.values()
        for usual in [statistics.median(group.values())]
        for request_id, more in group.items()
        if abs(more - usual) > _TEMPLATE_WORDS
    ]
    if others:
        names = ", ".join(others[:3])
        raise ProfileError(
            f"{', '.join(map(str, folders))}: {len(others)} of {len(requests)} requests "
            f"({names}{', …' if len(others) > 3 else ''}) were recorded with other prompts than "
            "the workload has under their ids: is this its recording?"
        )


def _hidden(record: Mapping[str, Any]) -> npt.NDArray[np.float16]:
    return np.frombuffer(base64.b64decode(record["hidden"]), np.float16)


def _own_id(recorded: str, tag: str | None) -> str:
    return recorded if tag is None else recorded.removesuffix(f"@{tag}")


def _labels(request: Request, correct: bool | None) -> dict[str, object]:
    return {
        "request_id": request.request_id,
        "category": request.category,
        "dataset": request.dataset,
        "split": request.split,
        "prompt_sha256": request.prompt_sha256,
        "answer_correct": correct,
    }


def _live_labels(record: Mapping[str, Any], seed: int) -> dict[str, object]:
    draw = hashlib.sha256(f"{seed}:{record['prompt_sha256']}".encode()).digest()
    held_out = int.from_bytes(draw[:8], "little") < EVAL_SHARE * 2**64
    return {"category": LIVE, "dataset": LIVE, "split": "eval" if held_out else "train"}


def _row(
    record: Mapping[str, Any], labels: Mapping[str, object], text: str | None
) -> dict[str, object]:
    row = {name: record[name] for name in REQUESTS_SCHEMA.names if name in record}
    if math.isnan(record["words"]):  # a server without a tokenizer
        if text is None:
            raise ProfileError(
                f"request {record['request_id']} was recorded without its words and newlines: "
                "start the server without --skip-tokenizer-init, or give prompts with --workload"
            )
        row |= {"words": word_count(text), "newlines": newline_count(text)}
    return {**row, "words": int(row["words"]), "newlines": int(row["newlines"]), **labels}


def _write(
    out: Path,
    joined: Joined,
    served: Sequence[Mapping[str, Any]],
    rows: Sequence[Mapping[str, object]],
    workload: WorkloadId,
    seed: int,
    budget_tokens: int,
    batching: Batching,
) -> Path:
    fingerprint = joined.recording.fingerprint.model_copy(update={"budget_tokens": budget_tokens})
    campaign = Campaign(
        fingerprint=fingerprint,
        workload=workload,
        seed=seed,
        engine=EngineSettings.model_validate(
            {"name": "sglang", "slots": joined.recording.slots, "dtype": fingerprint.dtype}
        ),
        batching=batching,
        shard_requests=len(rows),
        library_version=version("dwise-predict"),
        started_at=utc_now(),
    )
    records = Records(
        requests=pa.Table.from_pylist(list(rows), schema=REQUESTS_SCHEMA),
        rounds=pa.Table.from_pylist(joined.rounds, schema=ROUNDS_SCHEMA),
        hidden=np.stack([_hidden(record) for record in served]),
    )
    with open_profile(out, campaign) as writer:
        if writer.missing():
            writer.write_shard(0, records)
        writer.finish()
    return out
