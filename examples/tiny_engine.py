"""A stand-in for your engine: the embedded model, one batched forward pass at a time.

It only knows how to open a request, run one block of some requests, and close a request. Who runs
when is decided outside, in own_scheduler.py.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch

from dwise_predict.engines.protocol import EngineRequest
from dwise_predict.engines.torch_engine.engine import TorchEngine
from dwise_predict.engines.torch_engine.forward import forward_blocks
from dwise_predict.engines.torch_engine.kv_cache import BlockKVCache
from dwise_predict.engines.torch_engine.sequence import Sequence
from dwise_predict.recipe import load_recipe


@dataclass
class Row:
    """What one request's slot of a round did."""

    request_id: str
    prompt_block: bool
    block_done: bool = False
    hidden_mean: np.ndarray | None = None  # [hidden], only in the first denoising round
    answer: str | None = None  # once the request is finished


class TinyEngine:
    """Keeps KV and partial blocks of every open request, whether it is run or not."""

    def __init__(self, kv_tokens: int) -> None:
        recipe = load_recipe("tiny")
        self.inner = TorchEngine.load(recipe.model, recipe.engine, recipe.decoding)
        model, self.block_size = self.inner.checkpoint.model, recipe.decoding.block_size
        self.cache = BlockKVCache(
            model.config,
            kv_tokens // self.block_size,
            self.block_size,
            torch.float32,
            torch.device("cpu"),
        )
        self.open_requests: dict[str, Sequence] = {}

    def open(self, request: EngineRequest) -> None:
        """Take the KV that the request may need."""
        row = Sequence(request, self.block_size, self.inner.checkpoint.mask_id)
        row.pages = self.cache.allocate(row.reserved_pages, request.request_id)
        row.admitted_s = time.monotonic()
        self.open_requests[request.request_id] = row

    @torch.inference_mode()
    def step(self, request_ids: tuple[str, ...]) -> list[Row]:
        """One round: the next block of each request in one forward pass."""
        rows = sorted((self.open_requests[i] for i in request_ids), key=lambda r: r.block_index)
        hidden = forward_blocks(
            self.inner.checkpoint.model,
            self.cache,
            torch.tensor([row.block for row in rows]),
            [row.pages[: row.block_index + 1] for row in rows],
            only_cache=False,
        )
        assert hidden is not None
        return [self._settle(row, states) for row, states in zip(rows, hidden, strict=True)]

    def _settle(self, row: Sequence, hidden: torch.Tensor) -> Row:
        done = Row(row.request.request_id, prompt_block=row.prefilling)
        if row.prefilling:
            row.advance()
            return done
        if row.first_round_s is None:
            row.first_round_s, done.hidden_mean = time.monotonic(), hidden.mean(0).numpy()
        checkpoint = self.inner.checkpoint
        step = self.inner.algorithm.step(
            checkpoint.model.logits(hidden[None]),
            torch.tensor([row.block]),
            torch.arange(self.block_size)[None] < row.prompt_in_block,
            torch.tensor([row.post_edits]),
            checkpoint.mask_id,
        )
        row.block, row.post_edits = step.ids[0].tolist(), int(step.post_edits[0])
        row.rounds_in_block += 1
        done.block_done = bool(step.done[0])
        if done.block_done:
            row.commit(time.monotonic(), checkpoint.eos_ids)
        if row.finish_reason is not None:
            done.answer = self.inner.decode(row.output)
            self.cache.release(self.open_requests.pop(done.request_id).pages)
        return done
