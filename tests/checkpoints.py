"""Writes small random SDAR checkpoint folders for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from dwise_predict.engines.torch_engine.model import SdarConfig, SdarModel

SPECIAL = ["<|mask|>", "<|eos|>", "<|user|>", "<|assistant|>", "<|system|>"]
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def write_checkpoint(
    folder: Path,
    *,
    seed: int = 0,
    block_size: int = 4,
    hidden_size: int = 32,
    context: int = 256,
    sharpness: float = 1.0,
    eos_token_id: int | list[int] = 257,
    shards: int = 1,
    **overrides: Any,
) -> Path:
    """Write a random model over bytes (ids 0-255, then the special tokens, mask 256).

    ``sharpness`` scales the logits: the larger, the more tokens a round resolves. The mask's row
    of the output layer is zero, so that it does not win.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "architectures": ["SDARForCausalLM"],
        "model_type": "sdar",
        "vocab_size": 256 + len(SPECIAL),
        "hidden_size": hidden_size,
        "intermediate_size": 2 * hidden_size,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "rope_theta": 10000.0,
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": context,
        "tie_word_embeddings": False,
        "block_size": block_size,
        "mask_token_id": 256,
        "eos_token_id": eos_token_id,
        **overrides,
    }
    (folder / "config.json").write_text(json.dumps(config))
    _write_weights(folder, random_model(config, seed, sharpness), shards)
    _tokenizer().save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"chat_template": CHAT_TEMPLATE, "eos_token": "<|eos|>"})
    )
    return folder


def random_model(config: dict[str, Any], seed: int, sharpness: float) -> SdarModel:
    """A random network whose attention and confidence vary from position to position."""
    generator = torch.Generator().manual_seed(seed)
    model = SdarModel(SdarConfig.model_validate(config)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1:
                parameter.copy_(1 + 0.2 * torch.randn(parameter.shape, generator=generator))
                continue
            scale = 1.0 if "embed" in name else 1.5 * parameter.shape[1] ** -0.5
            parameter.copy_(scale * torch.randn(parameter.shape, generator=generator))
        if not config["tie_word_embeddings"]:
            model.lm_head.weight.mul_(sharpness)
            model.lm_head.weight[config["mask_token_id"]] = 0
    return model


def _write_weights(folder: Path, model: SdarModel, shards: int) -> None:
    tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    if model.config.tie_word_embeddings:
        del tensors["lm_head.weight"]
    if shards == 1:
        save_file(tensors, folder / "model.safetensors")
        return
    names = sorted(tensors)
    weight_map = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        part = names[shard::shards]
        save_file({name: tensors[name] for name in part}, folder / file)
        weight_map.update(dict.fromkeys(part, file))
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def _tokenizer() -> Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {character: i for i, character in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIAL)
    return tokenizer
