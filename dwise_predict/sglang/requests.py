"""A request of SGLang as the plugin knows it."""

from __future__ import annotations

import math
from typing import Any

from dwise_predict.plugin.requests import Tracked
from dwise_predict.work import prefill_blocks
from dwise_predict.workload.schema import newline_count, word_count


def track(req: Any, order: int, now: float, dllm_config: Any, separate: bool) -> Tracked:
    """Start to track ``req``; ``separate``: its prompt is one pass, whatever its length."""
    words, newlines = _counts(req)
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


def _counts(req: Any) -> tuple[float, float]:
    """Words and newlines of the prompt's text, special tokens left out.

    SGLang keeps no text of a request, and chat requests bring tokens only: so the tokens are
    decoded, alike for every way in.
    """
    if req.tokenizer is None:
        return math.nan, math.nan
    text = req.tokenizer.decode(list(req.origin_input_ids), skip_special_tokens=True)
    return float(word_count(text)), float(newline_count(text))
