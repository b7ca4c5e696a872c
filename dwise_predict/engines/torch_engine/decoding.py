"""Decoding algorithms of block diffusion, one denoising step at a time.

Same decisions as ``LowConfidence`` and ``JointThreshold`` of SGLang 0.5.20
(``srt/dllm/algorithm``), stated over batches of blocks. The one deliberate difference: positions
of the prompt are never work, even when the prompt holds a literal mask token.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dwise_predict.errors import EngineError
from dwise_predict.validation import unknown_name


class BlockStep(NamedTuple):
    """Blocks after one denoising step.

    Attributes:
        ids: int64 [N, block].
        done: bool [N]; the forward pass that gave the logits persisted the block's final KV,
            so the block can be committed.
        post_edits: int64 [N], the state to hand to the block's next step.
    """

    ids: Tensor
    done: Tensor
    post_edits: Tensor


@dataclass(frozen=True)
class LowConfidence:
    """Unmasks what is predicted with enough confidence, or else the surest position.

    A block is done when it had no mask on entry: it costs its unmasking steps and one
    committing forward.
    """

    threshold: float = 0.95

    edits_complete_blocks: ClassVar[bool] = False
    """Whether a block without masks still needs logits."""

    def max_rounds(self, block_size: int) -> int:
        """Rounds within which every block ends, unless the model predicts the mask token."""
        return block_size + 1

    def step(
        self, logits: Tensor, ids: Tensor, prompt: Tensor, post_edits: Tensor, mask_id: int
    ) -> BlockStep:
        """Advance blocks by one step.

        Args:
            logits: [N, block, vocab] of the current blocks.
            ids: int64 [N, block], the current blocks.
            prompt: bool [N, block], positions that belong to the prompt.
            post_edits: int64 [N], zeros for a new block.
            mask_id: token id of the mask.
        """
        masked = (ids == mask_id) & ~prompt
        predicted, confidence = _predict(logits)
        unmask = _unmask(masked, confidence, self.threshold)
        return BlockStep(torch.where(unmask, predicted, ids), ~masked.any(1), post_edits)


@dataclass(frozen=True)
class JointThreshold:
    """Unmasks like :class:`LowConfidence` and also rewrites tokens it has become sure of.

    A block is done on the step that changes nothing, or on the step without masks that exceeds
    ``max_post_edit_steps``; that step needs no committing forward after it. ``penalty_lambda``
    is subtracted from the logit of repeating the token to the left.
    """

    threshold: float = 0.5
    edit_threshold: float = 0.0
    max_post_edit_steps: int = 16
    penalty_lambda: float = 0.0

    edits_complete_blocks: ClassVar[bool] = True
    """Whether a block without masks still needs logits."""

    def max_rounds(self, block_size: int) -> int:
        """Rounds within which every block ends, unless the model predicts the mask token."""
        return block_size + self.max_post_edit_steps + 1

    def step(
        self, logits: Tensor, ids: Tensor, prompt: Tensor, post_edits: Tensor, mask_id: int
    ) -> BlockStep:
        """Advance blocks by one step; arguments as in :meth:`LowConfidence.step`."""
        if self.penalty_lambda > 0:
            penalty = logits.new_full(ids[:, :-1, None].shape, -self.penalty_lambda)
            logits = logits.clone()
            logits[:, 1:].scatter_add_(2, ids[:, :-1, None], penalty)
        masked = (ids == mask_id) & ~prompt
        predicted, confidence = _predict(logits)
        complete = ~masked.any(1)
        post_edits = post_edits + complete
        exhausted = complete & (post_edits > self.max_post_edit_steps)
        edit = (confidence > self.edit_threshold) & (ids != predicted) & ~masked & ~prompt
        change = _unmask(masked, confidence, self.threshold) | edit
        change &= ~exhausted[:, None]
        return BlockStep(torch.where(change, predicted, ids), ~change.any(1), post_edits)


Algorithm = LowConfidence | JointThreshold

_ALGORITHMS: dict[str, type[LowConfidence] | type[JointThreshold]] = {
    "LowConfidence": LowConfidence,
    "JointThreshold": JointThreshold,
}


# A penalty of 1e4 already excludes every repetition, and float16 logits can hold it.
_LARGEST = {
    "threshold": 1,
    "edit_threshold": 1,
    "max_post_edit_steps": 10_000,
    "penalty_lambda": 10_000,
}


def make_algorithm(name: str, parameters: Mapping[str, float]) -> Algorithm:
    """The algorithm ``name`` with ``parameters``; raises EngineError on unknown or bad ones."""
    if name not in _ALGORITHMS:
        raise EngineError(unknown_name("decoding.algorithm", name, _ALGORITHMS))
    kind = _ALGORITHMS[name]
    valid = [field.name for field in fields(kind)]
    for key, value in parameters.items():
        if key not in valid:
            raise EngineError(unknown_name(f"decoding parameter of {name}", key, valid))
        if not 0 <= value <= _LARGEST[key]:
            raise EngineError(
                f"decoding.parameters.{key} is {value}, expected 0 to {_LARGEST[key]}"
            )
        if key == "max_post_edit_steps" and value != int(value):
            raise EngineError(f"decoding.parameters.{key} is {value}, expected a whole number")
    typed = {k: int(v) if k == "max_post_edit_steps" else float(v) for k, v in parameters.items()}
    return kind(**typed)  # type: ignore[arg-type]


def algorithm_parameters(algorithm: Algorithm) -> dict[str, float]:
    """All parameters of ``algorithm``, defaults filled in."""
    return {key: float(value) for key, value in asdict(algorithm).items()}


def _predict(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Greedy tokens int64 [N, block] and their float32 probabilities [N, block]."""
    # On CPU a softmax and its maximum are twice as fast as maximum minus logsumexp.
    return logits.argmax(-1), logits.softmax(-1, dtype=torch.float32).amax(-1)


def _unmask(masked: Tensor, confidence: Tensor, threshold: float) -> Tensor:
    """Masked positions above ``threshold``, or the surest one of a block that has none."""
    confidence = confidence.masked_fill(~masked, -torch.inf)
    sure = confidence > threshold
    surest = torch.zeros_like(sure).scatter_(1, confidence.argmax(1, keepdim=True), True)
    return torch.where(sure.any(1, keepdim=True), sure, surest & masked)
