"""What a scheduler process records (see :mod:`dwise_predict.recording`)."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dwise_predict.errors import ProfileError
from dwise_predict.files import write_text
from dwise_predict.fingerprint import Fingerprint, fingerprint_differences
from dwise_predict.predictors.features import token_bins
from dwise_predict.recording import HEADER, Recording, read_recording, segments
from dwise_predict.sglang.metrics import Counts
from dwise_predict.sglang.requests import Tracked
from dwise_predict.sglang.settings import Settings
from dwise_predict.work import first_block_masked


class Recorder:
    """Appends finished requests and rounds to a recording.

    ``whole_canvas``: output blocks hold nothing of the prompt (DiffusionGemma). Raises
    ProfileError when the folder cannot be written or is a recording of something else.
    """

    def __init__(
        self, settings: Settings, fingerprint: Fingerprint, slots: int, whole_canvas: bool
    ) -> None:
        assert settings.profile is not None
        self.folder = folder = settings.profile
        policy = settings.policy if settings.mode == "schedule" else "fcfs"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            own = Recording(fingerprint=fingerprint, slots=slots, policy=policy)
            if (folder / HEADER).is_file():
                _require_same(folder, read_recording(folder), own)
            else:
                write_text(folder / HEADER, own.model_dump_json(indent=1))
            number = 1 + max((int(p.stem) for p in segments(folder)), default=0)
            # Appended to, line by line: what an atomic rewrite of the whole would cost grows.
            self._file = (folder / f"{number:05}.jsonl").open("x", encoding="ascii")
        except OSError as error:
            raise ProfileError(f"cannot record into {folder}: {error.strerror}") from error
        self._settings = settings
        self._block_size = fingerprint.block_size
        self._whole_canvas = whole_canvas
        self._segment = number
        self._index = 0

    def arrived(self, tracked: Tracked) -> None:
        """Choose whether to record a request, and note its tokens before SGLang changes them."""
        if in_sample(tracked.request_id, self._settings.sample):
            tracked.prompt_ids = np.array(tracked.req.origin_input_ids, np.uint32)

    def round(
        self,
        start_s: float,
        end_s: float,
        rows: Sequence[Tracked],
        kv_tokens: int,
        counts: Counts,
    ) -> None:
        """Note one round; it reaches the disk with the next finished request."""
        self._write(
            {
                "shard": self._segment,
                "index": self._index,
                "start_s": start_s,
                "wall_ms": (end_s - start_s) * 1e3,
                "slots": len(rows),
                "prefill_slots": sum(row.prefill for row in rows),
                "kv_tokens": kv_tokens,
                "residents": counts.residents,
                "waiting": counts.waiting,
            }
        )
        self._index += 1

    def request(self, tracked: Tracked, finished_s: float) -> None:
        """Keep a request that ended, if it is in the sample, and the rounds until now.

        One that never reached a denoising round has no label.
        """
        if tracked.hidden is not None and tracked.prompt_ids is not None:
            self._write(self._labels(tracked, tracked.prompt_ids, tracked.hidden, finished_s))
        self._file.flush()

    def _labels(
        self, tracked: Tracked, prompt_ids: Any, hidden: Any, finished_s: float
    ) -> dict[str, object]:
        per_block = list(tracked.rounds_per_block)
        if rounds := tracked.rounds - tracked.rounds_before:
            per_block.append(rounds)
        return {
            "request_id": tracked.request_id,
            "words": tracked.words,
            "newlines": tracked.newlines,
            "prompt_tokens": tracked.prompt_tokens,
            **self._prompt(prompt_ids),
            "prompt_blocks": tracked.prompt_blocks,
            "budget_tokens": tracked.budget_tokens,
            "output_tokens": len(tracked.req.output_ids_through_stop),
            "output_blocks": len(per_block),
            "rounds": sum(per_block),
            "rounds_per_block": per_block,
            "first_block_masked": first_block_masked(
                0 if self._whole_canvas else tracked.prompt_tokens, self._block_size
            ),
            "finish_reason": _finish_reason(tracked.req),
            "admission_estimate": _number(tracked.estimate),
            "refined_estimate": _number(tracked.refined),
            "arrival_s": tracked.arrival_s,
            "admitted_s": tracked.admitted_s,
            "first_round_s": tracked.first_round_s,
            "first_block_s": tracked.first_block_s,
            "finished_s": finished_s,
            "shard": self._segment,
            "hidden": base64.b64encode(hidden.tobytes()).decode("ascii"),
        }

    def _prompt(self, ids: Any) -> dict[str, object]:
        digest = hashlib.sha256(ids.astype("<u4").tobytes()).hexdigest()
        record: dict[str, object] = {"prompt_sha256": digest}
        if self._settings.records_tokens:
            record["token_bins"] = token_bins(ids)
        if self._settings.keep_prompts:
            record["prompt_ids"] = ids.tolist()
        return record

    def _write(self, record: Mapping[str, object]) -> None:
        self._file.write(json.dumps(record) + "\n")


def in_sample(request_id: str, share: float) -> bool:
    """Whether a request is in a sample of ``share``; alike in every process and on every run."""
    digest = hashlib.blake2b(request_id.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") < share * 2**64


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _finish_reason(req: Any) -> str:
    kind = None if req.finished_reason is None else req.finished_reason.to_json()["type"]
    return {"stop": "eos", "length": "budget"}.get(str(kind), "abort")


def _require_same(folder: Path, old: Recording, new: Recording) -> None:
    differences = fingerprint_differences(old.fingerprint, new.fingerprint)
    differences += [
        f"{name}: {before} -> {after}"
        for name in ("slots", "policy")
        if (before := getattr(old, name)) != (after := getattr(new, name))
    ]
    if differences:
        raise ProfileError(
            f"{folder} is a recording of another server ({'; '.join(differences)}): choose "
            "another folder for DWISE_PROFILE"
        )
