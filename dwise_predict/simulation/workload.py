"""What a replay serves: requests with known rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dwise_predict.work import prefill_blocks

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SimulatedWorkload:
    """N requests whose denoising rounds are known.

    ``rounds_per_block[i]`` are the denoising rounds of each output block of request i, as in the
    profile contract. ``output_tokens`` serve policies that rank by output length.

    ``prefill_chunk`` is the number of blocks of a prompt that one slot of one round processes
    together: 1 in SGLang's dLLM path, None for whole prompts in one pass, the tokens of an
    incomplete last block included, because the output has a block of its own (DiffusionGemma).
    """

    block_size: int
    request_ids: tuple[str, ...]
    categories: tuple[str, ...]
    prompt_tokens: IntArray
    output_tokens: IntArray
    budget_tokens: IntArray
    rounds_per_block: tuple[tuple[int, ...], ...]
    prefill_chunk: int | None = 1

    def __post_init__(self) -> None:
        n = len(self.request_ids)
        for name in ("categories", "prompt_tokens", "output_tokens", "budget_tokens"):
            if len(getattr(self, name)) != n:
                raise ValueError(f"{name} has {len(getattr(self, name))} entries, expected {n}")
        if len(self.rounds_per_block) != n:
            raise ValueError(f"rounds_per_block has {len(self.rounds_per_block)} entries, not {n}")
        if len(set(self.request_ids)) != n:
            raise ValueError("request ids are not unique")
        if any(not blocks or min(blocks) < 1 for blocks in self.rounds_per_block):
            raise ValueError("every request needs an output block, every block a round")
        if self.prefill_chunk is not None and self.prefill_chunk < 1:
            raise ValueError(f"prefill_chunk must be at least 1, not {self.prefill_chunk}")

    def __len__(self) -> int:
        return len(self.request_ids)

    @property
    def rounds(self) -> IntArray:
        """Total denoising rounds, int64 [N]."""
        return np.array([sum(blocks) for blocks in self.rounds_per_block], dtype=np.int64)

    @property
    def prompt_blocks(self) -> IntArray:
        """Prompt blocks to prefill, int64 [N]."""
        size = self.block_size
        if self.prefill_chunk is None:
            return -(-self.prompt_tokens // size)
        return np.array([prefill_blocks(int(t), size) for t in self.prompt_tokens], dtype=np.int64)

    @property
    def prefill_rounds(self) -> IntArray:
        """Rounds that each prompt needs by itself, int64 [N]: its blocks, or its chunks of them."""
        if self.prefill_chunk is None:
            return np.minimum(self.prompt_blocks, 1)
        return -(-self.prompt_blocks // self.prefill_chunk)

    def take(self, order: Sequence[int] | IntArray) -> SimulatedWorkload:
        """The requests ``order``, in that order."""
        index = np.asarray(order, dtype=np.int64)
        return replace(
            self,
            request_ids=tuple(self.request_ids[i] for i in index),
            categories=tuple(self.categories[i] for i in index),
            prompt_tokens=self.prompt_tokens[index],
            output_tokens=self.output_tokens[index],
            budget_tokens=self.budget_tokens[index],
            rounds_per_block=tuple(self.rounds_per_block[i] for i in index),
        )
