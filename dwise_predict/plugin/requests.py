"""What a plugin knows of a request besides the engine's own object."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dwise_predict.scheduling.state import RequestState


@dataclass(slots=True, kw_only=True)
class Tracked:
    """A request from arrival to end. Times are seconds since the scheduler started.

    ``req`` is the engine's own object.
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
