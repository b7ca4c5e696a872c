"""The block-diffusion objective: what one training batch looks like and how it is scored.

Every example is laid out as a clean copy followed by two noisy copies of its answer blocks. A
clean block attends to itself and earlier clean blocks; a noisy block attends to itself and to
*earlier clean* blocks, exactly what it sees when it is denoised after a KV cache of finished
blocks (Arriola et al., Block Diffusion, 2025, Section 3.2).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

# Weight 1/t of the diffusion bound, held below 1/0.3 so that lightly masked blocks cannot dominate.
MIN_RATIO = 0.3
# Decoding starts every block fully masked, so that state deserves more than its measure of zero.
FULL_MASK_SHARE = 0.25
# Padding behind the end of an answer is easy and frequent; at full weight the model learns to
# fill a block that it is unsure of with end tokens.
PADDING_WEIGHT = 0.2


@dataclass(frozen=True)
class Tokens:
    """One tokenised example; ``answer`` ends with the end token."""

    prompt: npt.NDArray[np.int16]
    answer: npt.NDArray[np.int16]


@dataclass(frozen=True)
class Layout:
    """One batch, ready for the network.

    Shapes: N examples, T positions (one clean copy and two noisy ones, padded).
    """

    input_ids: Tensor
    """int64 [N, T]; masked positions of the noisy copies hold the mask token."""
    positions: Tensor
    """int64 [N, T]: position in the text; a noisy copy repeats those of its clean one."""
    attention: Tensor
    """bool [N, 1, T, T]."""
    targets: Tensor
    """int64 [M]: the clean tokens of the M masked positions, in row-major order."""
    weights: Tensor
    """float32 [M]."""
    masked: Tensor
    """bool [N, T]: the scored positions."""


def padded_length(tokens: Tokens, block_size: int) -> tuple[int, int]:
    """Length of the clean copy and of one noisy copy, both whole blocks."""
    start = len(tokens.prompt) // block_size * block_size
    total = -(-(len(tokens.prompt) + len(tokens.answer)) // block_size) * block_size
    return total, total - start


def lay_out(
    batch: list[Tokens], block_size: int, mask_id: int, eos_id: int, rng: np.random.Generator
) -> Layout:
    """Noise a batch of examples.

    Each block draws a mask ratio t; the first noisy copy masks that share of its positions and
    the second copy the rest, so that every answer token is a target once. A block of which the
    first copy masks everything draws a ratio of its own for the second.
    """
    lengths = [padded_length(tokens, block_size) for tokens in batch]
    clean_size, noisy_size = max(c for c, _ in lengths), max(n for _, n in lengths)
    n, total = len(batch), clean_size + 2 * noisy_size
    ids = np.full((n, total), eos_id, dtype=np.int64)
    positions = np.zeros((n, total), dtype=np.int64)
    block = np.full((n, total), -1, dtype=np.int64)
    copy = np.zeros((n, total), dtype=np.int64)
    masked = np.zeros((n, total), dtype=bool)
    weight = np.zeros((n, total), dtype=np.float32)
    targets = np.zeros((n, total), dtype=np.int64)
    for row, (tokens, (clean, noisy)) in enumerate(zip(batch, lengths, strict=True)):
        text = np.full(clean, eos_id, dtype=np.int64)
        prompt, end = len(tokens.prompt), len(tokens.prompt) + len(tokens.answer)
        text[:prompt], text[prompt:end] = tokens.prompt, tokens.answer
        index = np.arange(clean)
        ids[row, :clean], positions[row, :clean] = text, index
        block[row, :clean] = index // block_size
        start = clean - noisy
        answer = np.arange(start, clean)
        hidden, ratio = _two_masks(noisy // block_size, block_size, rng)
        for k in range(2):
            span = slice(clean_size + k * noisy_size, clean_size + k * noisy_size + noisy)
            chosen = hidden[k] & (answer >= prompt)
            ids[row, span] = np.where(chosen, mask_id, text[start:])
            positions[row, span], block[row, span], copy[row, span] = (
                answer,
                answer // block_size,
                k + 1,
            )
            masked[row, span], targets[row, span] = chosen, text[start:]
            padding = np.where(answer >= end, PADDING_WEIGHT, 1.0)
            weight[row, span] = padding / np.maximum(ratio[k], MIN_RATIO)
    chosen_all = torch.from_numpy(masked)
    return Layout(
        input_ids=torch.from_numpy(ids),
        positions=torch.from_numpy(positions),
        attention=attention_mask(torch.from_numpy(block), torch.from_numpy(copy)),
        targets=torch.from_numpy(targets)[chosen_all],
        weights=torch.from_numpy(weight)[chosen_all],
        masked=chosen_all,
    )


def _two_masks(
    blocks: int, block_size: int, rng: np.random.Generator
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64]]:
    """Masks and ratios of the two noisy copies, both [2, blocks * block_size]."""
    ratio = np.repeat(rng.uniform(0.05, 1.0, blocks), block_size)
    full = np.repeat(rng.random(blocks) < FULL_MASK_SHARE, block_size)
    noise = rng.random(blocks * block_size)
    first = full | (noise < ratio)
    other = np.repeat(rng.uniform(0.05, 1.0, blocks), block_size)
    second = np.where(full, rng.random(blocks * block_size) < other, ~first)
    ratios = np.stack([np.where(full, 1.0, ratio), np.where(full, other, 1.0 - ratio)])
    return np.stack([first, second]), ratios


def attention_mask(block: Tensor, copy: Tensor) -> Tensor:
    """Who may attend to whom.

    Args:
        block: int64 [N, T], block index in the text, -1 for padding.
        copy: int64 [N, T], 0 for the clean copy, 1 and 2 for the noisy ones.

    Returns:
        bool [N, 1, T, T]; padding attends to itself only, so that its softmax stays defined.
    """
    qb, kb = block[:, :, None], block[:, None, :]
    qc, kc = copy[:, :, None], copy[:, None, :]
    earlier_clean = (kc == 0) & (kb < qb)
    own = (kc == qc) & (kb == qb)
    allowed = (earlier_clean | own) & (qb >= 0) & (kb >= 0)
    return (allowed | torch.eye(block.shape[1], dtype=torch.bool))[:, None]


def weighted_loss(logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Weighted mean cross-entropy of the masked positions: logits [M, vocab] to a scalar."""
    losses = F.cross_entropy(logits.float(), targets, reduction="none")
    return (losses * weights).sum() / weights.sum()
