"""What the tests change in SGLang so that small checkpoints run on a CPU.

The mask id of a checkpoint: SGLang hard-codes one per architecture, beyond a small vocabulary.
Paged allocation in 0.5.20: its Triton kernel is replaced by SGLang's own naive version.
"""

import json
from pathlib import Path

from sglang.srt.plugins.hook_registry import HookRegistry, HookType


def own_mask_id(config, server_args):
    """The mask id that the checkpoint's config.json names."""
    if config is None:
        return None
    raw = json.loads((Path(server_args.model_path) / "config.json").read_text())
    if "mask_token_id" in raw:
        config.mask_id = raw["mask_token_id"]
    return config


def alloc_extend(
    self,
    prefix_lens,
    prefix_lens_cpu,
    seq_lens,
    seq_lens_cpu,
    last_loc,
    extend_num_tokens,
    num_new_pages=None,
):
    """``PagedTokenToKVPoolAllocator.alloc_extend`` by ``alloc_extend_naive``."""
    import torch
    from sglang.srt.mem_cache.allocator.paged import alloc_extend_naive
    from sglang.srt.utils import get_num_new_pages

    pages = num_new_pages
    if pages is None:
        pages = get_num_new_pages(
            seq_lens=seq_lens_cpu, page_size=self.page_size, prefix_lens=prefix_lens_cpu
        )
    if pages > len(self.free_pages):
        self.merge_and_sort_free()
    if pages > len(self.free_pages):
        return None
    out = torch.empty((extend_num_tokens,), dtype=torch.int64, device=self.device)
    alloc_extend_naive(
        prefix_lens, seq_lens, last_loc, self.free_pages, out, self.page_size, self.device
    )
    self.free_pages = self.free_pages[pages:]
    return out


def register():
    from importlib.metadata import version

    HookRegistry.register(
        "sglang.srt.dllm.config.DllmConfig.from_server_args", own_mask_id, HookType.AFTER
    )
    if version("sglang") == "0.5.20":
        HookRegistry.register(
            "sglang.srt.mem_cache.allocator.paged.PagedTokenToKVPoolAllocator.alloc_extend",
            alloc_extend,
            HookType.REPLACE,
        )
