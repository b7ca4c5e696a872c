"""A request of SGLang as the plugin knows it."""

from __future__ import annotations

from typing import Any

from dwise_predict.plugin.estimates import text_counts
from dwise_predict.plugin.requests import Tracked
from dwise_predict.work import prefill_blocks


def track(req: Any, order: int, now: float, dllm_config: Any, separate: bool) -> Tracked:
    """Start to track ``req``; ``separate``: its prompt is one pass, whatever its length."""
    # SGLang keeps no text of a request, and chat requests bring tokens only.
    words, newlines = text_counts(req.tokenizer, req.origin_input_ids)
    prompt_tokens = len(req.origin_input_ids)
    blocks = 1 if separate else prefill_blocks(prompt_tokens, dllm_config.block_size)
    return Tracked(
        req=req,
        request_id=req.rid,
        order=order,
        arrival_s=now,
        prompt_tokens=prompt_tokens,
        budget_tokens=req.sampling_params.max_new_tokens,
        words=words,
        newlines=newlines,
        prompt_blocks=blocks,
        prompt_blocks_left=blocks,
        has_mask=dllm_config.mask_id in req.origin_input_ids,
    )
