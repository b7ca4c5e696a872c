"""How many slots are worth filling when a round's time grows with what is in it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from dwise_predict.scheduling.cost import RoundCost
from dwise_predict.scheduling.state import RequestState


@dataclass(frozen=True, slots=True)
class LeanFill:
    """Leaves slots empty when filling them would delay those ahead more than it saves.

    Requests in a round share its base time, and each makes it longer for the others. With m
    requests in the system, each of which takes c ms of every round it is in, served g at a time
    to the end of all, the mean completion time is proportional to ``(base + g c) (1 + m / g)``.
    It falls with g as long as ``g² c < m base``, so slots are filled, in order of rank, while
    ``g * (sum of the first g block times) <= factor * m * base_ms``. Ordinary blocks never come
    near that; prompts of 10,000 tokens do, whose blocks take as long as the base: 100 of them side
    by side all finish at the end, one after the other they finish half as late on average.

    A ``factor`` above 1 leaves fewer slots empty, which shortens the time to the last request at
    the expense of the mean. ``prefill_chunk`` is the number of blocks of a prompt that are
    processed together.
    """

    cost: RoundCost
    block_size: int
    factor: float
    prefill_chunk: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.factor < math.inf:
            raise ValueError(f"lean must be a positive number, not {self.factor}")

    def slots(self, ranked: Iterable[RequestState], present: int) -> int:
        """How many of ``ranked`` to run, at least one; ``present`` is m."""
        limit = self.factor * self.cost.base_ms * present
        filled, block_ms = 0, 0.0
        for state in ranked:
            blocks = self.prefill_chunk if state.prefill_left else 1
            done = (state.prompt_blocks - state.prefill_left) * self.prefill_chunk
            block_ms += blocks * self.cost.slot_ms + self.cost.kv_ms * done * self.block_size
            if filled and (filled + 1) * block_ms > limit:
                break
            filled += 1
        return filled
