"""What a server's scheduler process records (see :mod:`dwise_predict.recording`)."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence

import numpy as np

from dwise_predict.engines.protocol import FinishReason
from dwise_predict.fingerprint import Fingerprint
from dwise_predict.plugin.metrics import Counts
from dwise_predict.plugin.requests import Tracked
from dwise_predict.plugin.settings import Settings
from dwise_predict.recording import Recording
from dwise_predict.recording_writer import RecordingWriter, in_sample, prompt_record
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
        policy = settings.policy if settings.mode == "schedule" else "fcfs"
        header = Recording(fingerprint=fingerprint, slots=slots, policy=policy)
        self.writer = RecordingWriter(settings.profile, header)
        self._settings = settings
        self._block_size = fingerprint.block_size
        self._whole_canvas = whole_canvas
        self._index = 0

    def arrived(self, tracked: Tracked, prompt_ids: Sequence[int]) -> None:
        """Choose whether to record a request, and note its tokens before the engine changes any."""
        if in_sample(tracked.request_id, self._settings.sample):
            tracked.prompt_ids = np.array(prompt_ids, np.uint32)

    def round(
        self,
        start_s: float,
        end_s: float,
        rows: Sequence[Tracked],
        kv_tokens: int,
        counts: Counts,
    ) -> None:
        """Note one round; it reaches the disk with the next finished request."""
        self.writer.append(
            {
                "shard": self.writer.segment,
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

    def request(
        self, tracked: Tracked, finished_s: float, output_tokens: int, finish_reason: FinishReason
    ) -> None:
        """Keep a request that ended, if it is in the sample, and the rounds until now.

        One that never reached a denoising round has no label.
        """
        if tracked.hidden is not None:
            self.writer.append(self._labels(tracked, finished_s, output_tokens, finish_reason))
        self.writer.flush()

    def _labels(
        self, tracked: Tracked, finished_s: float, output_tokens: int, finish_reason: FinishReason
    ) -> dict[str, object]:
        assert tracked.hidden is not None and tracked.prompt_ids is not None
        per_block = list(tracked.rounds_per_block)
        if rounds := tracked.rounds - tracked.rounds_before:
            per_block.append(rounds)
        settings = self._settings
        return {
            "request_id": tracked.request_id,
            "words": tracked.words,
            "newlines": tracked.newlines,
            "prompt_tokens": tracked.prompt_tokens,
            **prompt_record(tracked.prompt_ids, settings.records_tokens, settings.keep_prompts),
            "prompt_blocks": tracked.prompt_blocks,
            "budget_tokens": tracked.budget_tokens,
            "output_tokens": output_tokens,
            "output_blocks": len(per_block),
            "rounds": sum(per_block),
            "rounds_per_block": per_block,
            "first_block_masked": first_block_masked(
                0 if self._whole_canvas else tracked.prompt_tokens, self._block_size
            ),
            "finish_reason": finish_reason,
            "admission_estimate": _number(tracked.estimate),
            "refined_estimate": _number(tracked.refined),
            "arrival_s": tracked.arrival_s,
            "admitted_s": tracked.admitted_s,
            "first_round_s": tracked.first_round_s,
            "first_block_s": tracked.first_block_s,
            "finished_s": finished_s,
            "shard": self.writer.segment,
            "hidden": base64.b64encode(tracked.hidden.tobytes()).decode("ascii"),
        }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
