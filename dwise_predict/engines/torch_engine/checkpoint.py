"""Hugging Face checkpoint folders of SDAR models: finding, checking and loading them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from torch import Tensor

from dwise_predict.engines.torch_engine.model import SdarConfig, SdarModel
from dwise_predict.engines.torch_engine.tokenizer import ChatTokenizer, read_json
from dwise_predict.errors import EngineError
from dwise_predict.recipe import ModelSettings
from dwise_predict.validation import describe, shortened

ARCHITECTURE = "SDARForCausalLM"
BUILTIN_TINY = "builtin:tiny"

_SINGLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_FILES = ("*.json", "*.safetensors", "*.jinja")
# What the network does; a configuration that asks for anything else would be served wrongly.
_FIXED = {
    "attention_bias": False,
    "hidden_act": "silu",
    "rope_scaling": None,
    "use_sliding_window": False,
}


@dataclass(frozen=True)
class CheckpointSource:
    """Where a checkpoint lies and how a fingerprint names it.

    ``model`` never holds a local path: a folder of one's own is "local:" and its name, and is
    identified by ``revision``, the hash of its content.
    """

    folder: Path
    model: str
    revision: str


@dataclass(frozen=True)
class Checkpoint:
    """A loaded checkpoint."""

    model: SdarModel
    tokenizer: ChatTokenizer
    architecture: str
    block_size: int
    mask_id: int
    eos_ids: frozenset[int]


def locate(settings: ModelSettings) -> CheckpointSource:
    """Find the checkpoint that a recipe names; downloads it when it is a Hub repository.

    Raises EngineError when there is none, or a pinned revision is not what the folder holds.
    """
    if settings.repo == BUILTIN_TINY:
        from dwise_predict.tiny import checkpoint_dir

        folder = checkpoint_dir()
        source = CheckpointSource(folder, BUILTIN_TINY, _content_hash(folder))
    elif (folder := _expanded(settings.repo)).is_dir():
        source = CheckpointSource(folder, f"local:{folder.resolve().name}", _content_hash(folder))
    else:
        return _from_hub(settings)
    if settings.revision not in (None, source.revision):
        raise EngineError(
            f"model.revision is {settings.revision}, but the content of {settings.repo} has "
            f"hash {source.revision}"
        )
    return source


def load_checkpoint(
    folder: Path, architecture: str, block_size: int, dtype: torch.dtype, device: torch.device
) -> Checkpoint:
    """Load a checkpoint folder for inference.

    Args:
        folder: holds config.json, the weights and the tokenizer.
        architecture: what the recipe expects as the first entry of ``architectures``.
        block_size: what the recipe expects as ``block_size``.
        dtype: of weights and activations; weights are converted.
        device: where the weights go.

    Raises:
        EngineError: a file or key is missing, or contradicts the recipe; the file is named.
    """
    path = folder / "config.json"
    raw = read_json(path)
    architectures = raw.get("architectures") or ["(none)"]
    if not isinstance(architectures, list):
        raise EngineError(
            f"{path}: architectures is {shortened(architectures)}, expected a list of names"
        )
    found = architectures[0]
    if found != ARCHITECTURE:
        raise EngineError(
            f"{path}: architectures begins with {found}; the built-in engine serves {ARCHITECTURE}"
        )
    if architecture != found:
        raise EngineError(
            f"recipe key model.architecture is {architecture}, but {path} says {found}"
        )
    for key, served in _FIXED.items():
        if raw.get(key, served) != served:
            raise EngineError(f"{path}: {key} is {raw[key]!r}; the built-in engine has {served!r}")
    # transformers 5 moved the rotary base into a section of its own.
    rope = raw.get("rope_parameters") or {}
    if not isinstance(rope, dict):
        raise EngineError(f"{path}: rope_parameters is {shortened(rope)}, expected an object")
    try:
        config = SdarConfig.model_validate({**rope, **raw})
    except ValidationError as error:
        raise EngineError(f"{path}: {describe(error, SdarConfig, 'key')}") from error
    own_block_size = _token_or_size(raw, "block_size", path)
    if own_block_size != block_size:
        raise EngineError(
            f"recipe key decoding.block_size is {block_size}, but {path} says {own_block_size}"
        )
    mask_id = _token_or_size(raw, "mask_token_id", path)
    if mask_id >= config.vocab_size:
        raise EngineError(f"{path}: mask_token_id {mask_id} is beyond vocab_size")
    return Checkpoint(
        model=_load_model(folder, config, dtype, device),
        tokenizer=ChatTokenizer.load(folder),
        architecture=found,
        block_size=block_size,
        mask_id=mask_id,
        eos_ids=_eos_ids(folder, raw, config.vocab_size),
    )


def _expanded(repo: str) -> Path:
    try:
        return Path(repo).expanduser()
    except RuntimeError as error:
        raise EngineError(
            f"model.repo is {repo!r}, but no such home folder is known: write the whole path"
        ) from error


def _from_hub(settings: ModelSettings) -> CheckpointSource:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        folder = snapshot_download(
            settings.repo, revision=settings.revision, allow_patterns=list(_FILES)
        )
    except (HFValidationError, HfHubHTTPError, OSError) as error:
        raise EngineError(
            f"model.repo {settings.repo!r} is no checkpoint folder and cannot be fetched from the "
            f"Hub at revision {settings.revision or 'main'}: {error}"
        ) from error
    # The Hub cache keeps each snapshot in a folder named after its commit.
    return CheckpointSource(Path(folder), settings.repo, Path(folder).name)


def _content_hash(folder: Path) -> str:
    """SHA-256 over names and content of configuration, tokenizer and weights."""
    total = hashlib.sha256()
    for path in sorted({path for pattern in _FILES for path in folder.glob(pattern)}):
        with path.open("rb") as file:
            digest = hashlib.sha256()
            while chunk := file.read(1 << 20):
                digest.update(chunk)
        total.update(f"{path.name}\0{digest.hexdigest()}\n".encode())
    return total.hexdigest()


def _token_or_size(raw: dict[str, Any], key: str, path: Path) -> int:
    value = raw.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise EngineError(f"{path}: {key} is {value!r}, expected a whole number")
    return value


def _eos_ids(folder: Path, raw: dict[str, Any], vocab_size: int) -> frozenset[int]:
    """EOS of config.json and, where present, generation_config.json (SGLang joins them too)."""
    path, generation = folder / "config.json", folder / "generation_config.json"
    sources = {path: raw}
    if generation.is_file():
        sources[generation] = read_json(generation)
    ids: set[int] = set()
    for origin, source in sources.items():
        value = source.get("eos_token_id")
        if value is None:
            continue
        given = value if isinstance(value, list) else [value]
        if not all(type(i) is int and 0 <= i < vocab_size for i in given):
            raise EngineError(
                f"{origin}: eos_token_id is {shortened(value)}, expected a token id, or a list of "
                f"them, from 0 to {vocab_size - 1} (vocab_size is {vocab_size})"
            )
        ids.update(given)
    if not ids:
        raise EngineError(f"{path}: eos_token_id is missing")
    return frozenset(ids)


def _load_model(
    folder: Path, config: SdarConfig, dtype: torch.dtype, device: torch.device
) -> SdarModel:
    with torch.device("meta"):
        model = SdarModel(config)
    expected = {name: tensor.shape for name, tensor in model.state_dict().items()}
    weights: dict[str, Tensor] = {}
    for path in _weight_files(folder):
        weights.update(_read_weights(path, expected, dtype, device))
    if config.tie_word_embeddings and "model.embed_tokens.weight" in weights:
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    if missing := sorted(expected.keys() - weights.keys()):
        raise EngineError(f"the weights in {folder} lack {_some(missing)}")
    model.load_state_dict(weights, assign=True)
    return model.eval().requires_grad_(False)


def _weight_files(folder: Path) -> list[Path]:
    if (folder / _SINGLE).is_file():
        return [folder / _SINGLE]
    if not (folder / _INDEX).is_file():
        raise EngineError(f"{folder} holds neither {_SINGLE} nor {_INDEX}")
    weight_map = read_json(folder / _INDEX).get("weight_map")
    if not isinstance(weight_map, dict) or not all(map(_is_file_name, weight_map.values())):
        raise EngineError(
            f"{folder / _INDEX}: weight_map is {shortened(weight_map)}, expected an object from "
            "weights to names of files in the same folder"
        )
    names = sorted(set(weight_map.values()))
    if missing := [name for name in names if not (folder / name).is_file()]:
        raise EngineError(f"{folder / _INDEX} names {_some(missing)}, not found beside it")
    return [folder / name for name in names]


def _is_file_name(name: object) -> bool:
    return isinstance(name, str) and not {"/", "\\"} & set(name)


def _read_weights(
    path: Path, expected: dict[str, torch.Size], dtype: torch.dtype, device: torch.device
) -> dict[str, Tensor]:
    weights = {}
    try:
        with safe_open(path, framework="pt", device=str(device)) as file:
            for name in file.keys():  # noqa: SIM118 (no mapping)
                weights[name] = file.get_tensor(name).to(dtype)
    except (SafetensorError, OSError) as error:
        raise EngineError(f"cannot read weights {path}: {error}") from error
    if strange := sorted(weights.keys() - expected.keys()):
        raise EngineError(
            f"{path} holds weights that {ARCHITECTURE} does not have: {_some(strange)}"
        )
    for name, tensor in weights.items():
        if tensor.shape != expected[name]:
            raise EngineError(
                f"{path}: {name} has shape {list(tensor.shape)}, but config.json makes it "
                f"{list(expected[name])}"
            )
    return weights


def _some(names: Iterable[str], limit: int = 3) -> str:
    names = list(names)
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more
