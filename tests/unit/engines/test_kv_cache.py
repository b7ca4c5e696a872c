from __future__ import annotations

import pytest
import torch

from dwise_predict.engines.torch_engine.kv_cache import BlockKVCache
from dwise_predict.engines.torch_engine.model import SdarConfig
from dwise_predict.errors import EngineError

CONFIG = SdarConfig(
    vocab_size=8,
    hidden_size=8,
    intermediate_size=8,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=4,
    max_position_embeddings=64,
)


def make_cache(pages: int) -> BlockKVCache:
    return BlockKVCache(CONFIG, pages, 4, torch.float32, torch.device("cpu"))


def test_reads_back_what_was_written_page_by_page() -> None:
    cache = make_cache(pages=5)
    keys, values = torch.randn(2, 2, 4, 4), torch.randn(2, 2, 4, 4)
    cache.write(1, torch.tensor([4, 2]), keys, values)
    read_keys, read_values = cache.read(1, torch.tensor([[2, 4]]))
    assert torch.equal(read_keys[0], torch.cat([keys[1], keys[0]], dim=1))
    assert torch.equal(read_values[0], torch.cat([values[1], values[0]], dim=1))


def test_pages_are_handed_out_once_and_come_back() -> None:
    cache = make_cache(pages=5)
    first, second = cache.allocate(2, "a"), cache.allocate(3, "b")
    assert sorted(first + second) == [0, 1, 2, 3, 4]
    with pytest.raises(EngineError, match="'c', which needs 1 KV pages, but only 0 of 5"):
        cache.allocate(1, "c")
    cache.release(first)
    assert cache.free == 2
    assert sorted(cache.allocate(2, "c")) == sorted(first)
