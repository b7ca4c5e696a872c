"""The embedded block-diffusion language model: weights, tokenizer, corpus builder and trainer.

It exists so that everything else can be run and tested on a real dLLM without a GPU or a hub.
"""

from __future__ import annotations

from pathlib import Path

MODEL_NAME = "tiny"


def checkpoint_dir() -> Path:
    """Folder of the shipped checkpoint, in Hugging Face format (``SDARForCausalLM``)."""
    return Path(__file__).parent / "checkpoint"
