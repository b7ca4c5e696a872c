"""One round's forward pass: a block of every row against the cached blocks before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from dwise_predict.engines.torch_engine.kv_cache import BlockKVCache
from dwise_predict.engines.torch_engine.model import Layer, SdarModel, rotary_tables


class RowGroup(NamedTuple):
    """Consecutive rows of similar context length, which attend together.

    ``pages`` is int64 [rows, P], shorter rows padded with a page of their own; ``mask`` is
    additive [rows, 1, 1, P * block] and hides the padding, or None without any.
    """

    rows: slice
    pages: Tensor
    mask: Tensor | None


def group_by_context(lengths: Sequence[int]) -> list[slice]:
    """Cut rows, sorted by context length in blocks, into groups of similar length.

    No row is padded by more than two blocks or a quarter of its length, so that one long
    request does not make all rows pay, and there are few groups.
    """
    groups = []
    start = 0
    for row, length in enumerate(lengths):
        if length > lengths[start] + max(2, lengths[start] // 4):
            groups.append(slice(start, row))
            start = row
    groups.append(slice(start, len(lengths)))
    return groups


def row_groups(
    tables: Sequence[Sequence[int]], block_size: int, dtype: torch.dtype, device: torch.device
) -> list[RowGroup]:
    """Groups of rows whose page tables (earlier blocks, then the current one) are ``tables``.

    Rows must be sorted by the length of their tables.
    """
    groups = []
    for rows in group_by_context([len(table) for table in tables]):
        longest = len(tables[rows.stop - 1])
        padded = [[*t, *[t[-1]] * (longest - len(t))] for t in tables[rows]]
        mask = None
        if len(tables[rows.start]) < longest:
            lengths = torch.tensor([len(t) * block_size for t in tables[rows]], device=device)
            hidden = torch.arange(longest * block_size, device=device) >= lengths[:, None]
            mask = torch.zeros(hidden.shape, dtype=dtype, device=device)
            mask = mask.masked_fill_(hidden, -torch.inf)[:, None, None]
        groups.append(RowGroup(rows, torch.tensor(padded, device=device), mask))
    return groups


def forward_blocks(
    model: SdarModel,
    cache: BlockKVCache,
    ids: Tensor,
    tables: Sequence[Sequence[int]],
    only_cache: bool,
) -> Tensor | None:
    """Run one block per row and store its keys and values in the row's last page.

    Args:
        model: network in evaluation mode.
        cache: holds the earlier blocks.
        ids: int64 [N, block], the current blocks.
        tables: per row, the pages of its earlier blocks and of the current one; sorted by length.
        only_cache: stop once all keys and values are stored.

    Returns:
        The final normed hidden states [N, block, hidden]; None when ``only_cache``.
    """
    block_size = ids.shape[1]
    weight = model.model.embed_tokens.weight
    groups = row_groups(tables, block_size, weight.dtype, weight.device)
    current = torch.tensor([table[-1] for table in tables], device=ids.device)
    starts = torch.tensor([(len(t) - 1) * block_size for t in tables], device=ids.device)
    positions = starts[:, None] + torch.arange(block_size, device=ids.device)
    cos, sin = rotary_tables(positions, model.config.head_dim, model.config.rope_theta)
    x = model.model.embed_tokens(ids)
    layers = cast(list[Layer], list(model.model.layers))
    for index, layer in enumerate(layers):
        attention = layer.self_attn
        queries, keys, values = attention.project(layer.input_layernorm(x), cos, sin)
        cache.write(index, current, keys, values)
        if only_cache and index == len(layers) - 1:
            return None
        x = x + attention.o_proj(_attend(queries, cache, index, groups))
        x = x + layer.mlp(layer.post_attention_layernorm(x))
    hidden: Tensor = model.model.norm(x)
    return hidden


def _attend(queries: Tensor, cache: BlockKVCache, layer: int, groups: list[RowGroup]) -> Tensor:
    """Attention output [N, block, heads * head_dim] of ``queries`` [N, heads, block, head_dim]."""
    rows, heads, block, head_dim = queries.shape
    kv_heads = cache.keys[layer].shape[2]
    # Within a block attention is not causal, so the query heads that share a key head can be
    # treated as more queries of that head.
    shared = queries.reshape(rows, kv_heads, heads // kv_heads * block, head_dim)
    parts = []
    for group in groups:
        keys, values = cache.read(layer, group.pages)
        mask = group.mask
        if mask is not None:
            mask = mask.expand(-1, 1, shared.shape[2], -1)
        parts.append(
            F.scaled_dot_product_attention(shared[group.rows], keys, values, attn_mask=mask)
        )
    out = torch.cat(parts).view(rows, heads, block, head_dim)
    return out.transpose(1, 2).reshape(rows, block, heads * head_dim)
