"""Remaining-work arithmetic shared by engines, policies and the simulator (paper Section 4.1).

Everything here counts in blocks and rounds: one slot of one round processes one block.
"""

from __future__ import annotations


def prefill_blocks(prompt_tokens: int, block_size: int) -> int:
    """Whole prompt blocks that need a prefill round each.

    The tokens of an incomplete last block are not prefilled: they stay visible in the first
    output block and are denoised together with its masks (SGLang's dLLM path).
    """
    return prompt_tokens // block_size


def first_block_masked(prompt_tokens: int, block_size: int) -> int:
    """Masked positions of the first output block, between 1 and ``block_size``."""
    return block_size - prompt_tokens % block_size


def output_blocks(prompt_tokens: int, output_tokens: int, block_size: int) -> int:
    """Blocks that ``output_tokens`` new tokens occupy after a prompt of ``prompt_tokens``."""
    end = prompt_tokens + output_tokens
    return -(-end // block_size) - prefill_blocks(prompt_tokens, block_size)


def reserved_blocks(
    prompt_tokens: int, budget_tokens: int, block_size: int, slack_blocks: int = 2
) -> int:
    """Worst-case KV reservation of a resident request in blocks (paper Section 6.1)."""
    return -(-(prompt_tokens + budget_tokens) // block_size) + slack_blocks
