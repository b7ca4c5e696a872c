"""What the plugin uses of SGLang, and the differences between the versions it knows.

Functions of SGLang that the plugin hooks or calls are touched here or named in :data:`CONTRACT`,
which a test checks against the sources of both releases and :func:`contract_faults` checks where
the plugin runs. An attribute that is gone is a fault when it is first read, which ends the plugin's
part, not the server.
"""

from __future__ import annotations

import inspect
import pkgutil
from array import array
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any

from dwise_predict.engines.protocol import FinishReason

TESTED = ("0.5.20", "0.5.23")

_SCHEDULER = "sglang.srt.managers.scheduler.Scheduler."
_DLLM = "sglang.srt.dllm.mixin.scheduler.SchedulerDllmMixin."
_ADDER = "sglang.srt.managers.schedule_policy.PrefillAdder."

RESOLVE = "sglang.srt.server_args.ServerArgs.resolve_once"
DLLM_CONFIG = "sglang.srt.dllm.config.DllmConfig.from_server_args"
INIT = _SCHEDULER + "__init__"
ENQUEUE = _SCHEDULER + "_add_request_to_queue"
ABORT = _SCHEDULER + "abort_request"
STATE = _SCHEDULER + "get_internal_state"
FETCH = _DLLM + "_fetch_waiting_reqs"
FORM = _DLLM + "_process_dllm_batches"
BATCH = _DLLM + "get_new_batch_dllm"
RESULT = _DLLM + "process_batch_result_dllm"
LOGITS = "sglang.srt.layers.logits_processor.LogitsProcessor._get_dllm_logits"

CONTRACT: dict[str, tuple[str, ...]] = {
    RESOLVE: ("self",),
    DLLM_CONFIG: ("server_args",),
    INIT: ("self", "server_args", "port_args"),
    ENQUEUE: ("self", "req", "is_retracted"),
    ABORT: ("self", "recv_req"),
    STATE: ("self", "recv_req"),
    FETCH: ("self",),
    FORM: ("self", "adder", "running_batch"),
    BATCH: ("self", "running_batch"),
    RESULT: ("self", "batch", "result"),
    LOGITS: ("self", "hidden_states", "lm_head", "logits_metadata"),
    _ADDER + "add_one_req": ("self", "req", "has_chunked_req", "truncation_align_size"),
    _ADDER + "add_dllm_staging_req": ("self", "req"),
    "sglang.srt.managers.schedule_batch.Req.init_next_round_input": ("self", "tree_cache"),
    "sglang.srt.dllm.mixin.req.ReqDllmMixin.is_dllm_prefill": ("self",),
    "sglang.srt.mem_cache.memory_pool.ReqToTokenPool.alloc": ("self", "reqs"),
    "sglang.srt.mem_cache.memory_pool.ReqToTokenPool.write": ("self", "indices", "values"),
    "sglang.srt.disaggregation.utils.prepare_abort": ("req", "error_message", "status_code"),
    "sglang.srt.configs.model_config.ModelConfig.from_server_args": ("server_args",),
}
"""Dotted name to the first parameters that the plugin relies on, in order."""


def contract_faults() -> list[str]:
    """What the SGLang of this process lacks of :data:`CONTRACT`, one sentence each."""
    faults = []
    for name, expected in CONTRACT.items():
        try:
            target = pkgutil.resolve_name(name)
        except (ImportError, AttributeError):
            faults.append(f"{name} does not exist")
            continue
        found = tuple(inspect.signature(target).parameters)[: len(expected)]
        if found != expected:
            faults.append(f"{name} takes {found}, expected {expected}")
    return faults


def separate_context(dllm_config: Any) -> bool:
    """Whether prompts are encoded in passes of their own (DiffusionGemma), never mixed."""
    return bool(getattr(dllm_config, "requires_separate_context_encoding", False))


def lift_budgets(adder: Any) -> Callable[[], None]:
    """Let ``adder`` take every request that the plan chose; call the result before each.

    Its own budgets assume that nothing is reserved: they would refuse residents whose KV is
    reserved, or cut their block short. Free KV is still checked, against what is truly free.
    """
    adder.rem_input_tokens = 1 << 40
    adder.prefill_max_requests = None
    if adder.rem_chunk_tokens is not None:
        adder.rem_chunk_tokens = 1 << 40
    budget: Any = getattr(adder, "memory_budget", None)

    def lift_first() -> None:
        adder.rem_total_token_offset = adder.cur_rem_token_offset = 0

    def lift_later() -> None:
        budget.total_offset = budget.current_offset = 0

    return lift_first if budget is None else lift_later


def hold_row(req: Any, pool: Any) -> None:
    """Give a resident between two blocks its row of the request pool back.

    SGLang 0.5.20 takes the row away after every finished block, and an abort then frees nothing
    of a request without a row: its KV would leak.
    """
    if req.kv.holds_kv or req.kv.is_kv_released:
        return
    pool.alloc([req])
    pool.write((req.kv.req_pool_idx, slice(0, len(req.prefix_indices))), req.prefix_indices)


def settle_prompt(req: Any, end: int, tokens: Sequence[int]) -> None:
    """Take over what a resolved block, ending at ``end``, made of mask tokens in the prompt.

    SGLang 0.5.20 denoises them, and then caches the block under two keys, before and after, which
    double-frees it. Later releases leave them alone.
    """
    start = end - len(tokens)
    inside = min(end, len(req.origin_input_ids)) - start
    if inside > 0:
        req.origin_input_ids[start : start + inside] = array("q", tokens[:inside])


def ranks() -> tuple[int, int]:
    """Own tensor-parallel rank, and how many there are."""
    from sglang.srt.runtime_context import get_parallel

    parallel = get_parallel()
    return parallel.tp_rank, parallel.tp_size


def replica(scheduler: Any) -> int:
    """Which data-parallel replica this is; 0 where there is one."""
    from sglang.srt.runtime_context import get_parallel

    place = scheduler.ps if hasattr(scheduler, "ps") else get_parallel()
    return place.dp_rank or 0


def graph_rows(slots: int) -> int:
    """Most rows that one forward pass may have, rows that pad CUDA graphs included."""
    from sglang.srt.runtime_context import get_exec

    captured: list[int] = get_exec().graph.cuda_graph_config.decode.bs or []
    return max([slots, *captured])


def forward_mode(dllm_config: Any, reqs: list[Any]) -> Any:
    """The kind of forward pass that a formed round is."""
    from sglang.srt.model_executor.forward_batch_info import ForwardMode

    if separate_context(dllm_config) and reqs and reqs[0].is_dllm_prefill():
        return ForwardMode.EXTEND
    return ForwardMode.DLLM_EXTEND


def refuse(scheduler: Any, req: Any, reason: str) -> None:
    """Answer the request that was queued last with an error (HTTP 400) and forget it."""
    from sglang.srt.disaggregation.utils import prepare_abort

    scheduler.waiting_queue.pop()
    prepare_abort(req, reason, status_code=HTTPStatus.BAD_REQUEST)
    scheduler.output_streamer.stream_output([req], req.return_logprob)


def set_budget(req: Any, tokens: int) -> None:
    """Answer the request with so many tokens at most."""
    parameters = req.sampling_params
    parameters.max_new_tokens = tokens
    parameters.min_new_tokens = min(parameters.min_new_tokens, tokens)


def outcome(req: Any) -> tuple[int, FinishReason]:
    """Output tokens of a request that ended, and why it did."""
    kind = None if req.finished_reason is None else req.finished_reason.to_json()["type"]
    reasons: dict[str | None, FinishReason] = {"stop": "eos", "length": "budget"}
    return len(req.output_ids_through_stop), reasons.get(kind, "abort")


def gather(value: str, group: Any) -> list[str]:
    """``value`` of every rank of a CPU process group."""
    import torch.distributed

    found = [""] * torch.distributed.get_world_size(group)
    torch.distributed.all_gather_object(found, value, group=group)
    return found


def from_first_rank(values: list[list[float]], group: Any) -> list[list[float]]:
    """The numbers that the first rank of a CPU process group has, of the same shape everywhere."""
    import torch

    tensor = torch.tensor(values)
    first = torch.distributed.get_process_group_ranks(group)[0]
    torch.distributed.broadcast(tensor, src=first, group=group)
    broadcast: list[list[float]] = tensor.tolist()
    return broadcast
