"""A recipe as SGLang's arguments, its decoding algorithm's file, and the plugin's variables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from dwise_predict.errors import RecipeError
from dwise_predict.files import write_text
from dwise_predict.profile import Batching
from dwise_predict.recipe import DecodingSettings, Recipe, SglangSettings

ALGORITHM_FILE = "algorithm.yaml"
_WHOLE = ("max_post_edit_steps", "max_denoising_steps", "stability_threshold", "seed")
"""Parameters that SGLang counts with."""
_SECTIONS = {"entropy_bound": "sampler_config"}
"""Parameters that SGLang looks for in a section of the file."""


def algorithm_config(decoding: DecodingSettings) -> dict[str, Any]:
    """The content of ``--dllm-algorithm-config``.

    Raises RecipeError when a parameter that SGLang counts with is no whole number.
    """
    config: dict[str, Any] = {"block_size": decoding.block_size}
    for name, value in decoding.parameters.items():
        number: float | int = value
        if name in _WHOLE:
            if value != int(value):
                raise RecipeError(
                    f"recipe key decoding.parameters.{name} is {value:g}, expected a whole number"
                )
            number = int(value)
        section = config.setdefault(_SECTIONS[name], {}) if name in _SECTIONS else config
        section[name] = number
    return config


def write_algorithm_config(decoding: DecodingSettings, folder: Path) -> Path:
    """Write the algorithm's file into ``folder``; returns its absolute path."""
    path = folder.absolute() / ALGORITHM_FILE
    write_text(path, yaml.safe_dump(algorithm_config(decoding), sort_keys=False))
    return path


def server_arguments(recipe: Recipe, config: Path) -> dict[str, Any]:
    """Keyword arguments of SGLang's ``ServerArgs``.

    ``config`` is the file of :func:`write_algorithm_config`. What the recipe leaves open is left
    to SGLang. Slots are ``max_running_requests``: profiling keeps SGLang's own scheduling.
    Raises RecipeError for whole blocks, of which no single rounds could be counted.
    """
    if not recipe.decoding.fdfo:
        raise RecipeError(
            "recipe key decoding.fdfo is false, with which SGLang runs whole blocks and rounds "
            "cannot be counted one by one: set it to true"
        )
    engine, settings = recipe.engine, recipe.engine.sglang or SglangSettings()
    overrides = settings.config_overrides
    chosen = {
        "model_path": _model_path(recipe),
        "revision": None if _is_local(recipe) else recipe.model.revision,
        "trust_remote_code": recipe.model.trust_remote_code or None,
        "json_model_override_args": json.dumps(overrides) if overrides else None,
        "dtype": engine.dtype,
        "device": None if engine.device == "auto" else engine.device.partition(":")[0],
        "base_gpu_id": _gpu(engine.device),
        "tp_size": settings.tp_size,
        "ep_size": settings.ep_size,
        "attention_backend": settings.attention_backend,
        "max_total_tokens": settings.max_total_tokens,
        "mem_fraction_static": settings.mem_fraction_static,
        "max_running_requests": engine.slots,
        "dllm_algorithm": recipe.decoding.algorithm,
        "dllm_algorithm_config": str(config),
        "random_seed": recipe.seed,
        "log_level": "info",
    }
    return {name: value for name, value in chosen.items() if value is not None}


def command_flags(arguments: Mapping[str, Any]) -> list[str]:
    """Keyword arguments of ``ServerArgs`` as flags of ``sglang.launch_server``."""
    words = []
    for name, value in arguments.items():
        words.append("--" + name.replace("_", "-"))
        if value is not True:
            words.append(str(value))
    return words


def plugin_variables(recording: Path, slots: int, batching: Batching) -> dict[str, str]:
    """Variables with which the plugin records into ``recording`` or refuses to start."""
    variables = {"DWISE_PROFILE": str(recording.absolute()), "DWISE_STRICT": "1"}
    if batching == "stock":
        return {**variables, "DWISE_MODE": "profile"}
    return {
        **variables,
        "DWISE_MODE": "schedule",
        "DWISE_POLICY": "fcfs",
        "DWISE_SLOTS": str(slots),
        "DWISE_RESIDENT_MULTIPLIER": "1",
    }


def _model_path(recipe: Recipe) -> str:
    from dwise_predict.engines.torch_engine.checkpoint import BUILTIN_TINY

    if recipe.model.repo == BUILTIN_TINY:
        from dwise_predict.tiny import checkpoint_dir

        return str(checkpoint_dir())
    if _is_local(recipe):
        return str(Path(recipe.model.repo).expanduser().absolute())
    return recipe.model.repo


def _is_local(recipe: Recipe) -> bool:
    repo = recipe.model.repo
    return repo.startswith("builtin:") or Path(repo).expanduser().is_dir()


def _gpu(device: str) -> int | None:
    """The number of the first GPU, where the recipe names one."""
    number = device.partition(":")[2]
    return int(number) if number.isdecimal() else None
