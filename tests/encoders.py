"""Small random text encoders for tests of the learned baselines, as folders of their own."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    AutoModel,
    BertConfig,
    DistilBertConfig,
    OPTConfig,
    PreTrainedTokenizerFast,
)

WORDS = (
    *("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("tell", "me", "a", "list", "story", "explain", "answer", "short", "long", "about"),
    *("the", "fox", "river", "of", "and", "yes", "no"),
)
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
ARCHITECTURES = ("bert", "distilbert", "opt")


def write_encoder(
    folder: Path, architecture: str = "bert", seed: int = 0, layers: int = 2, width: int = 16
) -> Path:
    """Write a random encoder over :data:`WORDS`, with tokenizer, that ``transformers`` loads."""
    vocabulary = {word: i for i, word in enumerate([*SPECIAL, *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
    ).save_pretrained(folder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        AutoModel.from_config(
            _config(architecture, len(vocabulary), layers, width)
        ).save_pretrained(folder)
    return folder


def _config(
    architecture: str, vocabulary: int, layers: int, width: int
) -> BertConfig | DistilBertConfig | OPTConfig:
    if architecture == "bert":
        return BertConfig(
            vocab_size=vocabulary,
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=2,
            intermediate_size=2 * width,
            max_position_embeddings=64,
            pad_token_id=0,
        )
    if architecture == "distilbert":
        return DistilBertConfig(
            vocab_size=vocabulary,
            dim=width,
            n_layers=layers,
            n_heads=2,
            hidden_dim=2 * width,
            max_position_embeddings=64,
            pad_token_id=0,
        )
    return OPTConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        word_embed_proj_dim=width,
        num_hidden_layers=layers,
        num_attention_heads=2,
        ffn_dim=2 * width,
        max_position_embeddings=64,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=3,
    )
