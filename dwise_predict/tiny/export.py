"""Write a trained model as the Hugging Face folder that SGLang and the built-in engine serve."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer

from dwise_predict.engines.torch_engine.model import SdarModel
from dwise_predict.tiny.tokenizer import save_tokenizer


def export_checkpoint(
    model: SdarModel,
    tokenizer: Tokenizer,
    folder: Path,
    block_size: int,
    mask_id: int,
    eos_id: int,
) -> None:
    """Write ``config.json``, bf16 ``model.safetensors`` and the tokenizer, replacing ``folder``."""
    temporary = folder.with_name(folder.name + ".tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    config = {
        "architectures": ["SDARForCausalLM"],
        "model_type": "qwen3",
        **model.config.model_dump(),
        "hidden_act": "silu",
        "attention_bias": False,
        "use_sliding_window": False,
        "initializer_range": 0.02,
        "torch_dtype": "bfloat16",
        "bos_token_id": None,
        "eos_token_id": eos_id,
        "pad_token_id": eos_id,
        "mask_token_id": mask_id,
        "block_size": block_size,
    }
    (temporary / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    weights = {name: p.detach().to(torch.bfloat16) for name, p in model.state_dict().items()}
    save_file(weights, str(temporary / "model.safetensors"), metadata={"format": "pt"})
    save_tokenizer(tokenizer, temporary, model.config.max_position_embeddings)
    if folder.exists():
        shutil.rmtree(folder)
    os.replace(temporary, folder)
