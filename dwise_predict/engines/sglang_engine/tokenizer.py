"""The model's own tokenizer and chat template, as SGLang's chat endpoint applies them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dwise_predict.errors import EngineError
from dwise_predict.recipe import ModelSettings
from dwise_predict.workload.schema import Message


class ModelTokenizer:
    """Turns chats into token ids and token ids into text, with transformers.

    Needs the tokenizer's files only, not the weights. Raises EngineError when they cannot be had
    or there is no chat template.
    """

    def __init__(self, model: ModelSettings) -> None:
        try:
            from transformers import AutoTokenizer
        except ImportError as error:
            raise EngineError(
                "prompts are tokenised with transformers: pip install 'dwise-predict[train]'"
            ) from error
        source, revision = _source(model)
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(
                source, revision=revision, trust_remote_code=model.trust_remote_code
            )
        except Exception as error:  # whatever a repository's own code raises
            raise EngineError(f"the tokenizer of {model.repo} cannot be loaded: {error}") from error
        if self._tokenizer.chat_template is None:
            raise EngineError(
                f"{model.repo} has no chat template (chat_template.jinja, or chat_template in "
                "tokenizer_config.json), with which prompts are made of chats"
            )

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of a chat, with the prompt for the assistant's turn at its end.

        Raises EngineError when the chat template refuses the chat.
        """
        try:
            text = self._tokenizer.apply_chat_template(
                [message.model_dump() for message in messages],
                tokenize=False,
                add_generation_prompt=True,
            )
        except Exception as error:  # a template is a program: it can fail in any way
            raise EngineError(f"the chat template refuses a prompt: {error}") from error
        ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids, special tokens left out."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=True)
        return text


def _source(model: ModelSettings) -> tuple[str, str | None]:
    """Folder or repository, and the revision of the latter."""
    if model.repo == "builtin:tiny":
        from dwise_predict.tiny import checkpoint_dir

        return str(checkpoint_dir()), None
    folder = Path(model.repo).expanduser()
    return (str(folder), None) if folder.is_dir() else (model.repo, model.revision)
