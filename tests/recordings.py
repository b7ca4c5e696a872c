"""Recordings as servers make them, of requests with made-up labels."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dwise_predict.fingerprint import Fingerprint
from dwise_predict.recording import HEADER, Recording
from dwise_predict.workload.schema import Request

HIDDEN = 8
FINGERPRINT = Fingerprint(
    model="acme/model",
    revision="r1",
    architecture="SDARForCausalLM",
    hidden_size=HIDDEN,
    algorithm="LowConfidence",
    algorithm_parameters={"threshold": 0.9},
    block_size=4,
    fdfo=True,
    budget_tokens=1,
    engine="sglang",
    engine_version="0.5.20",
    dtype="float32",
)


def record_of(request: Request, recorded_as: str, shard: int = 1, **more: Any) -> dict[str, Any]:
    """What a server writes of ``request``; rounds follow from its prompt."""
    seed = int(request.prompt_sha256[:8], 16)
    rounds = [2 + seed % 3, 1 + seed % 5]
    prompt = len(request.text)
    return {
        "request_id": recorded_as,
        "words": float(len(request.text.split())),
        "newlines": 0.0,
        "prompt_tokens": prompt,
        "prompt_sha256": hashlib.sha256(request.text.encode()).hexdigest(),
        "token_bins": [1, 2],
        "prompt_blocks": prompt // 4,
        "budget_tokens": request.max_new_tokens or 16,
        "output_tokens": 8,
        "output_blocks": 2,
        "rounds": sum(rounds),
        "rounds_per_block": rounds,
        "first_block_masked": 4 - prompt % 4,
        "finish_reason": "eos",
        "arrival_s": 0.0,
        "admitted_s": 0.1,
        "first_round_s": 0.2,
        "first_block_s": 0.3,
        "finished_s": 0.4,
        "shard": shard,
        "hidden": base64.b64encode(
            np.random.default_rng(seed).normal(size=HIDDEN).astype(np.float16).tobytes()
        ).decode(),
        **more,
    }


def round_record(shard: int = 1, index: int = 0) -> dict[str, Any]:
    """One round of two slots."""
    return {
        "shard": shard,
        "index": index,
        "start_s": 0.1 * index,
        "wall_ms": 5.0,
        "slots": 2,
        "prefill_slots": 1,
        "kv_tokens": 64,
        "residents": 2,
        "waiting": 0,
    }


def write_recording(
    folder: Path,
    segments: Iterable[Iterable[Mapping[str, Any]]],
    fingerprint: Fingerprint = FINGERPRINT,
    slots: int = 2,
    cut: str = "",
) -> Path:
    """A recording of one segment for each start of a server; the last may end in a cut line."""
    folder.mkdir(parents=True)
    header = Recording(fingerprint=fingerprint, slots=slots)
    (folder / HEADER).write_text(header.model_dump_json())
    path = folder / HEADER
    for number, records in enumerate(segments, start=1):
        path = folder / f"{number:05}.jsonl"
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
    if cut:
        with path.open("a") as file:
            file.write(cut)
    return folder
