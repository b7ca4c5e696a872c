"""Where the plugin touches SGLang; each hook is a few lines around a call of the runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dwise_predict.sglang import activation, compat
from dwise_predict.sglang.planner import Planner, RankMismatchError
from dwise_predict.sglang.runtime import Runtime

_current: Runtime | None = None
"""The runtime of this scheduler process; the forward pass knows no scheduler."""


def register_hooks() -> None:
    """Register every hook with SGLang, which applies them when all plugins are loaded."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    for target, hook, kind in (
        (compat.RESOLVE, resolve, HookType.BEFORE),
        (compat.DLLM_CONFIG, dllm_config, HookType.AFTER),
        (compat.INIT, start, HookType.AROUND),
        (compat.ENQUEUE, enqueue, HookType.AROUND),
        (compat.ABORT, abort, HookType.AROUND),
        (compat.FETCH, fetch, HookType.AROUND),
        (compat.FORM, form, HookType.AROUND),
        (compat.BATCH, batch_formed, HookType.AFTER),
        (compat.RESULT, result_processed, HookType.AROUND),
        (compat.LOGITS, after_logits, HookType.AFTER),
        (compat.STATE, internal_state, HookType.AFTER),
    ):
        HookRegistry.register(target, hook, kind)


def resolve(arguments: Any) -> None:
    """Before SGLang resolves its arguments: decide."""
    activation.decide(arguments)


def dllm_config(config: Any, server_args: Any) -> Any:
    """Slots of a round, which SGLang otherwise takes from the rows of the request pool."""
    decided = getattr(server_args, "_dwise", None)
    if config is not None and decided is not None and decided.mode == "schedule":
        config.max_running_requests = decided.slots
    return config


def start(original: Callable[..., None], self: Any, *args: Any, **kwargs: Any) -> None:
    """Around the scheduler's constructor: the tap must be there when CUDA graphs are captured."""
    global _current
    server_args = args[0] if args else kwargs["server_args"]
    decided = getattr(server_args, "_dwise", None)
    _current = self._dwise = None
    if decided is None or decided.mode == "off":
        original(self, *args, **kwargs)
        return
    runtime = _current = Runtime(decided)
    _begin(runtime, runtime.make_tap)
    original(self, *args, **kwargs)
    self._dwise = runtime
    _begin(runtime, lambda: runtime.attach(self))


def enqueue(original: Callable[..., None], self: Any, req: Any, is_retracted: bool = False) -> None:
    """Around queueing a request."""
    original(self, req, is_retracted)
    queued = bool(self.waiting_queue) and self.waiting_queue[-1] is req
    if queued:
        _guarded(self, "took in a request", lambda runtime: runtime.arrived(req))


def abort(original: Callable[..., None], self: Any, recv_req: Any) -> None:
    """Around aborts."""
    _guarded(
        self,
        "prepared an abort",
        lambda runtime: runtime.hold_rows(recv_req.rid, recv_req.abort_all),
    )
    original(self, recv_req)
    _guarded(self, "noticed an abort", lambda runtime: runtime.synchronise(aborted=True))


def fetch(original: Callable[..., None], self: Any) -> None:
    """In place of FCFS admission: plan the round."""
    _guarded(self, "compared its requests with the queues", lambda runtime: runtime.synchronise())
    if planner := _planner(self):
        _guarded(self, "planned a round", lambda _: planner.plan())
    if _planner(self) is None:
        original(self)


def form(original: Callable[..., Any], self: Any, adder: Any, running_batch: Any) -> Any:
    """In place of prefill-first batches: the planned round."""
    if planner := _planner(self):
        _guarded(self, "formed a round", lambda _: planner.form(adder))
        if _planner(self) or adder.can_run_list:
            return compat.forward_mode(self.dllm_config, adder.can_run_list)
    return original(self, adder, running_batch)


def batch_formed(batch: Any, self: Any, running_batch: Any) -> Any:
    """After a batch was built from a round."""
    if batch is not None:
        _guarded(self, "looked at a round", lambda runtime: runtime.round_started(batch))
    return batch


def result_processed(original: Callable[..., None], self: Any, batch: Any, result: Any) -> None:
    """Around result processing, where SGLang commits blocks."""
    if _planner(self):
        _guarded(self, "looked at results", lambda runtime: runtime.settle_prompts(result))
    original(self, batch, result)
    accepted = result.accept_length_per_req_cpu
    _guarded(self, "took in results", lambda runtime: runtime.round_finished(accepted))


def after_logits(
    result: Any, self: Any, hidden_states: Any, lm_head: Any, logits_metadata: Any
) -> Any:
    """Inside the forward pass, with the final normed hidden states."""
    runtime = _current
    if runtime is None or runtime.tap is None or not logits_metadata.forward_mode.is_dllm_extend():
        return result
    try:
        runtime.tap.after_logits(hidden_states)
    except Exception as error:
        runtime.fault("pooled hidden states", error)
        runtime.tap = None
    return result


def internal_state(result: Any, self: Any, recv_req: Any) -> Any:
    """What ``/server_info`` says of this scheduler."""
    runtime, decided = self._dwise, getattr(self.server_args, "_dwise", None)
    if runtime is not None:
        result.internal_state["dwise"] = runtime.state()
    elif decided is not None:
        result.internal_state["dwise"] = decided.describe()
    return result


def _begin(runtime: Runtime, act: Callable[[], None]) -> None:
    """A part of the start; a fault ends the plugin's part, and the server where it is strict."""
    try:
        act()
    except Exception as error:
        settings = runtime.activation.settings
        if settings is not None and settings.strict:
            raise
        runtime.fault("started", error)


def _planner(scheduler: Any) -> Planner | None:
    runtime: Runtime | None = scheduler._dwise
    return None if runtime is None else runtime.planner


def _guarded(scheduler: Any, doing: str, act: Callable[[Runtime], None]) -> None:
    """Let the runtime act; a fault ends the plugin's part, not the server."""
    runtime: Runtime | None = scheduler._dwise
    if runtime is None or not runtime.acts:
        return
    try:
        act(runtime)
    except RankMismatchError:
        raise
    except Exception as error:
        runtime.fault(doing, error)
