"""What the tests change in SGLang so that small checkpoints run on a CPU.

The mask id of a checkpoint: SGLang hard-codes one per architecture, beyond a small vocabulary.
Paged allocation in 0.5.20: its Triton kernel is replaced by SGLang's own naive version.
"""

import json
import os
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


def text_alone(arguments):
    """Leave out images, for which a small checkpoint has no processor."""
    # Resolved arguments come by again, and cannot be changed.
    if not getattr(arguments, "_text_alone", False):
        arguments._text_alone = True
        arguments.enable_multimodal = False


def skew_second_rank(result, self, *args, **kwargs):
    """From round 20 on, the second rank plans with its requests in another order."""
    from sglang.srt.runtime_context import get_parallel

    planner = self._dwise.planner
    if get_parallel().tp_rank == 1 and planner.core.clock.round == 20:
        plan = planner.core.plan

        def reversed_plan(now):
            planned = plan(now)
            return type(planned)(planned.admit, planned.run[:-1], planned.pause)

        planner.core.plan = reversed_plan


def write_plans(result, self, *args, **kwargs):
    """One digest a round and rank, for tests that compare ranks."""
    import hashlib

    from sglang.srt.runtime_context import get_parallel

    digest = hashlib.sha256(repr(self._dwise.planner._plan).encode()).hexdigest()
    path = Path(os.environ["TEST_PLANS"]) / f"rank-{get_parallel().tp_rank}.txt"
    with path.open("a") as file:
        file.write(digest + "\n")


def register():
    from importlib.metadata import version

    formed = "sglang.srt.dllm.mixin.scheduler.SchedulerDllmMixin.get_new_batch_dllm"
    if "TEST_PLANS" in os.environ:
        HookRegistry.register(formed, write_plans, HookType.AFTER)
    if "TEST_GEMMA" in os.environ:
        from tests.e2e.sglang.gemma import serve_on_cpu

        serve_on_cpu()
        resolve = "sglang.srt.server_args.ServerArgs.resolve_once"
        HookRegistry.register(resolve, text_alone, HookType.BEFORE)
    if "TEST_SKEW" in os.environ:
        HookRegistry.register(formed, skew_second_rank, HookType.AFTER)

    HookRegistry.register(
        "sglang.srt.dllm.config.DllmConfig.from_server_args", own_mask_id, HookType.AFTER
    )
    if version("sglang") == "0.5.20":
        HookRegistry.register(
            "sglang.srt.mem_cache.allocator.paged.PagedTokenToKVPoolAllocator.alloc_extend",
            alloc_extend,
            HookType.REPLACE,
        )
