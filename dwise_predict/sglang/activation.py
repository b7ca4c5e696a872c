"""Whether the plugin acts, decided once where the server is launched.

The decision travels to the scheduler processes with SGLang's own arguments, so that no process
decides for itself, and it is always said: in the log, in ``/server_info`` and as a metric.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from typing import Any

from dwise_predict.bundle import PredictorBundle
from dwise_predict.errors import DwiseError, EngineError, IncompatibleBundleError
from dwise_predict.fingerprint import Fingerprint
from dwise_predict.plugin.activation import Activation
from dwise_predict.plugin.settings import Settings, asked
from dwise_predict.sglang import compat

_log = logging.getLogger(__name__)


def decide(arguments: Any) -> None:
    """Decide for one server and note it in its arguments, before SGLang resolves them.

    Raises DwiseError with ``DWISE_STRICT=1`` when the plugin cannot act.
    """
    if getattr(arguments, "_dwise", None) is not None or not asked(os.environ):
        return
    try:
        activation = activate(os.environ, arguments)
    except Exception as error:
        if os.environ.get("DWISE_STRICT") == "1":
            raise
        if not isinstance(error, DwiseError):
            _log.exception("DWISE failed to start")
        activation = Activation(None, str(error) or type(error).__name__)
    if activation.mode == "schedule" and activation.settings is not None:
        # Rows of the request pool, one for each resident; the slots of a round are set apart.
        arguments.max_running_requests = activation.slots * activation.settings.resident_multiplier
        if arguments.cuda_graph_max_bs_decode is None:
            arguments.cuda_graph_max_bs_decode = activation.slots
    arguments._dwise = activation
    level = logging.ERROR if activation.reason else logging.WARNING
    _log.log(level, activation.line())


def activate(environment: Mapping[str, str], arguments: Any) -> Activation:
    """Check variables, SGLang, its arguments and the bundle; changes nothing.

    Raises DwiseError with the first reason not to act.
    """
    settings = Settings.from_environment(environment)
    if faults := compat.contract_faults():
        raise EngineError(
            f"this SGLang is not what the plugin knows ({'; '.join(faults)}): use one of "
            f"{', '.join(compat.TESTED)}, or upgrade dwise-predict"
        )
    slots = _slots(settings, arguments)
    fingerprint = served_fingerprint(arguments)
    if settings.mode == "profile" or settings.bundle is None:
        return Activation(settings, slots=slots, fingerprint=fingerprint)
    bundle = PredictorBundle.from_pretrained(settings.bundle)
    # A server has no output budget of its own: every request brings one.
    budget = bundle.config.fingerprint.budget_tokens
    verdict = bundle.check(fingerprint.model_copy(update={"budget_tokens": budget}))
    if not verdict.usable:
        raise IncompatibleBundleError(
            f"the bundle {settings.bundle} does not fit this server: {verdict}"
        )
    if verdict.differences:
        _log.warning("the bundle %s and this server differ: %s", settings.bundle, verdict)
    return Activation(settings, "", slots, fingerprint, bundle, verdict.level)


def _slots(settings: Settings, arguments: Any) -> int:
    """Slots of a round; raises EngineError, a sentence each, on arguments that cannot be."""
    refusals = {
        "give --dllm-algorithm: without it SGLang serves no diffusion model": (
            arguments.dllm_algorithm is None
        ),
        "drop --no-dllm-fdfo: rounds are counted one by one, without FDFO whole blocks would run": (
            not arguments.dllm_fdfo
        ),
        "drop --enable-dp-attention: its ranks would have to plan idle rounds together": (
            arguments.enable_dp_attention
        ),
        "drop --enable-streaming-session: sessions keep rows that residents need": (
            settings.mode == "schedule" and getattr(arguments, "enable_streaming_session", False)
        ),
    }
    for sentence, refused in refusals.items():
        if refused:
            raise EngineError(sentence)
    slots = settings.slots or arguments.max_running_requests
    if slots is None:
        raise EngineError(
            "say how many requests share a round: --max-running-requests B or DWISE_SLOTS=B "
            "(SGLang's own default for diffusion models is 1)"
        )
    if settings.mode == "profile" and settings.slots not in (None, arguments.max_running_requests):
        raise EngineError("DWISE_SLOTS is for scheduling: profiling leaves stock scheduling as is")
    return int(slots)


def served_fingerprint(arguments: Any) -> Fingerprint:
    """What a server with these arguments is; its budget is left at 1 (see :func:`activate`).

    A local checkpoint is identified by the hash of its content, which takes a second per GB.
    """
    import sglang
    from sglang.srt.configs.model_config import ModelConfig
    from sglang.srt.dllm.config import DllmConfig

    from dwise_predict.engines.torch_engine.checkpoint import locate
    from dwise_predict.recipe import ModelSettings

    model = ModelConfig.from_server_args(arguments)
    dllm = DllmConfig.from_server_args(arguments)
    architecture = model.hf_config.architectures[0]
    settings = ModelSettings(
        repo=arguments.model_path, revision=arguments.revision, architecture=architecture
    )
    source = locate(settings)
    return Fingerprint(
        model=source.model,
        revision=source.revision,
        architecture=architecture,
        hidden_size=model.hidden_size,
        algorithm=dllm.algorithm,
        algorithm_parameters=_parameters(dllm),
        block_size=dllm.block_size,
        fdfo=dllm.first_done_first_out_mode,
        budget_tokens=1,
        engine="sglang",
        engine_version=sglang.__version__,
        dtype=str(model.dtype).removeprefix("torch."),
    )


def _parameters(dllm: Any) -> dict[str, float]:
    """Parameters of the decoding algorithm, with defaults where this library knows them."""
    from dwise_predict.engines.torch_engine.decoding import algorithm_parameters, make_algorithm

    given = dict(_numbers(dllm.algorithm_config))
    try:
        return algorithm_parameters(make_algorithm(dllm.algorithm, given))
    except EngineError:
        # An algorithm that only SGLang has: what was set is compared, defaults are its version's.
        return given


def _numbers(config: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Numbers of a configuration and of its sections (Gemma4Renoise has some)."""
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from _numbers(value)
        elif name not in ("block_size", "mask_id") and isinstance(value, int | float):
            yield name, float(value)
