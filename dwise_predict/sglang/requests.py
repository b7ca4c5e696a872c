"""What the plugin knows of a request besides SGLang's own object."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dwise_predict.scheduling.state import RequestState
from dwise_predict.work import prefill_blocks
from dwise_predict.workload.schema import newline_count, word_count


@dataclass(slots=True, kw_only=True)
class Tracked:
    """A request from arrival to end. Times are seconds since the scheduler started.

    ``words`` and ``newlines`` are NaN where the server has no tokenizer.
    ``prompt_blocks_left`` counts prompt blocks neither processed nor found in the prefix cache.
    ``has_mask``: the prompt holds a literal mask token; ``started``: it was in a round.
    ``prefill``: its block in the present round is one of the prompt.
    ``rounds`` counts its denoising rounds, of which ``rounds_before`` were of earlier blocks.
    ``state`` is what the scheduler that admitted it keeps of it.
    ``prompt_ids`` are there if the request is to be recorded, ``hidden`` after its first round.
    """

    order: int
    arrival_s: float
    budget_tokens: int
    words: float
    newlines: float
    prompt_blocks: int
    # What nearly every round reads or writes comes next: it shares cache lines.
    req: Any
    state: RequestState = field(init=False)
    request_id: str
    prompt_tokens: int
    prompt_blocks_left: int
    prefill: bool = False
    rounds: int = 0
    started: bool = False
    has_mask: bool = False
    rounds_before: int = 0
    rounds_per_block: list[int] = field(default_factory=list)
    estimate: float = math.nan
    refined: float = math.nan
    admitted_s: float | None = None
    first_round_s: float | None = None
    first_block_s: float | None = None
    prompt_ids: npt.NDArray[np.uint32] | None = None
    hidden: npt.NDArray[np.float16] | None = None

    def block_done(self, now: float) -> None:
        """The round at hand was the last of an output block."""
        self.rounds_per_block.append(self.rounds - self.rounds_before)
        self.rounds_before = self.rounds
        if self.first_block_s is None:
            self.first_block_s = now


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
