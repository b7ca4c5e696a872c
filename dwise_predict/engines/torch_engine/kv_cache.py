"""Keys and values of earlier blocks, in pages of one block."""

from __future__ import annotations

import torch
from torch import Tensor

from dwise_predict.engines.torch_engine.model import SdarConfig
from dwise_predict.errors import EngineError


class BlockKVCache:
    """A pool of pages per layer, preallocated; a page holds one block of one request.

    ``keys[layer]`` and ``values[layer]`` are [pages, block, kv_heads, head_dim]; keys are stored
    rotated. Pages are handed out lowest first, so that a run from an empty cache always uses the
    same ones.
    """

    def __init__(
        self,
        config: SdarConfig,
        pages: int,
        block_size: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        shape = (pages, block_size, config.num_key_value_heads, config.head_dim)
        layers = range(config.num_hidden_layers)
        self.keys = [torch.empty(shape, dtype=dtype, device=device) for _ in layers]
        self.values = [torch.empty(shape, dtype=dtype, device=device) for _ in layers]
        self.pages = pages
        self._free = list(range(pages - 1, -1, -1))

    @property
    def free(self) -> int:
        """Pages that no request holds."""
        return len(self._free)

    def allocate(self, pages: int, request_id: str) -> list[int]:
        """Take ``pages`` pages for a request; raises EngineError when too few are free."""
        if pages > self.free:
            raise EngineError(
                f"the scheduler admitted request {request_id!r}, which needs {pages} KV pages, "
                f"but only {self.free} of {self.pages} are free: raise kv_tokens or admit fewer"
            )
        return [self._free.pop() for _ in range(pages)]

    def release(self, pages: list[int]) -> None:
        """Give back the pages of a finished request."""
        self._free.extend(reversed(pages))

    def write(self, layer: int, pages: Tensor, keys: Tensor, values: Tensor) -> None:
        """Store current blocks: ``pages`` int64 [N], the others [N, kv_heads, block, head_dim]."""
        self.keys[layer].index_copy_(0, pages, keys.transpose(1, 2))
        self.values[layer].index_copy_(0, pages, values.transpose(1, 2))

    def read(self, layer: int, pages: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of ``pages`` int64 [N, P], each [N, kv_heads, P * block, head_dim]."""
        return _gather(self.keys[layer], pages), _gather(self.values[layer], pages)


def _gather(pool: Tensor, pages: Tensor) -> Tensor:
    rows, per_row = pages.shape
    _, block, heads, head_dim = pool.shape
    gathered = pool.index_select(0, pages.reshape(-1))
    return gathered.view(rows, per_row * block, heads, head_dim).transpose(1, 2)
