"""One request inside the engine: its blocks, its place in them, and when it ends."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dwise_predict.engines.protocol import EngineRequest, FinishReason, ServedRequest
from dwise_predict.errors import EngineError
from dwise_predict.work import first_block_masked, prefill_blocks, reserved_blocks


@dataclass
class Sequence:
    """A request and everything the engine knows of it.

    ``block_index`` counts the blocks whose keys and values are final. ``block`` holds the ids of
    the current block: a prompt block, or an output block that begins with what is left of the
    prompt (``prompt_in_block`` positions) and is masked after it.
    """

    request: EngineRequest
    block_size: int
    mask_id: int
    pages: list[int] = field(default_factory=list)
    block_index: int = 0
    block: list[int] = field(init=False)
    prompt_in_block: int = field(init=False)
    post_edits: int = 0
    rounds_in_block: int = 0
    rounds_per_block: list[int] = field(default_factory=list)
    output: list[int] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    admitted_s: float | None = None
    first_round_s: float | None = None
    first_block_s: float | None = None
    finished_s: float | None = None
    hidden_mean: npt.NDArray[np.float16] | None = None
    refined: float | None = None

    def __post_init__(self) -> None:
        self.prompt_blocks = prefill_blocks(len(self.request.prompt_ids), self.block_size)
        self._open_block()

    @property
    def prefilling(self) -> bool:
        """Whether the current block is a whole prompt block."""
        return self.block_index < self.prompt_blocks

    @property
    def rounds(self) -> int:
        """Denoising rounds so far."""
        return sum(self.rounds_per_block) + self.rounds_in_block

    @property
    def reserved_pages(self) -> int:
        """Pages for prompt and budget, rounded up to blocks."""
        return sequence_blocks(self.request, self.block_size)

    @property
    def has_masks(self) -> bool:
        """Whether the current output block is incomplete."""
        return self.mask_id in self.block[self.prompt_in_block :]

    def advance(self) -> None:
        """Leave the current block, whose keys and values are final, for the next one."""
        self.block_index += 1
        self._open_block()

    def commit(self, now: float, eos_ids: Collection[int]) -> None:
        """Take the resolved output block into the output; end the request or open a block."""
        self.rounds_per_block.append(self.rounds_in_block)
        if self.first_block_s is None:
            self.first_block_s = now
        room = self.request.budget_tokens - len(self.output)
        new = self.block[self.prompt_in_block :][:room]
        end = next((i for i, token in enumerate(new) if token in eos_ids), None)
        self.output.extend(new if end is None else new[: end + 1])
        if end is not None:
            self._finish("eos", now)
        elif len(self.output) == self.request.budget_tokens:
            self._finish("budget", now)
        else:
            self.advance()

    def abort(self, now: float) -> None:
        """End the request in the middle of its block, whose tokens are dropped."""
        self.rounds_per_block.append(self.rounds_in_block)
        self._finish("abort", now)

    def served(self) -> ServedRequest:
        """The record of a finished request."""
        if (
            self.finish_reason is None
            or self.admitted_s is None
            or self.first_round_s is None
            or self.finished_s is None
            or self.hidden_mean is None
        ):
            raise EngineError(f"internal: request {self.request.request_id!r} did not finish")
        return ServedRequest(
            request_id=self.request.request_id,
            output_ids=tuple(self.output),
            finish_reason=self.finish_reason,
            rounds_per_block=tuple(self.rounds_per_block),
            first_block_masked=first_block_masked(len(self.request.prompt_ids), self.block_size),
            arrival_s=self.request.arrival_s,
            admitted_s=self.admitted_s,
            first_round_s=self.first_round_s,
            first_block_s=self.first_block_s,
            finished_s=self.finished_s,
            hidden_mean=self.hidden_mean,
            refined=self.refined,
        )

    def _open_block(self) -> None:
        start = self.block_index * self.block_size
        prompt = self.request.prompt_ids[start : start + self.block_size]
        self.prompt_in_block = len(prompt)
        self.block = [*prompt, *[self.mask_id] * (self.block_size - len(prompt))]
        self.post_edits = 0
        self.rounds_in_block = 0

    def _finish(self, reason: FinishReason, now: float) -> None:
        self.finish_reason = reason
        self.finished_s = now


def sequence_blocks(request: EngineRequest, block_size: int) -> int:
    """Blocks of prompt and budget, which is also the worst-case number of KV pages."""
    return reserved_blocks(
        len(request.prompt_ids), request.budget_tokens, block_size, slack_blocks=0
    )
