"""Tokenizer and chat template of a checkpoint folder, without transformers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from dwise_predict.errors import EngineError
from dwise_predict.workload.schema import Message

if TYPE_CHECKING:
    from jinja2 import Template
    from tokenizers import Tokenizer

_EXTRA = "the built-in engine needs tokenizers and jinja2: pip install 'dwise-predict[train]'"


class ChatTokenizer:
    """Turns chats into token ids and token ids into text, as Hugging Face does.

    The chat template is untrusted input: it runs in Jinja's sandbox.
    """

    def __init__(self, tokenizer: Tokenizer, template: Template, tokens: dict[str, str]) -> None:
        self._tokenizer = tokenizer
        self._template = template
        self._tokens = tokens

    @classmethod
    def load(cls, folder: Path) -> ChatTokenizer:
        """Read tokenizer.json, tokenizer_config.json and the chat template of ``folder``.

        Raises EngineError when one of them is missing or cannot be parsed.
        """
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise EngineError(_EXTRA) from error
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise EngineError(f"{path} is missing: the checkpoint needs a fast tokenizer")
        try:
            tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the Rust extension raises plain Exception
            raise EngineError(f"{path} is no tokenizer: {error}") from error
        config = read_json(folder / "tokenizer_config.json")
        return cls(tokenizer, _compile(_template_source(folder, config)), _special_tokens(config))

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of a chat, with the prompt for the assistant's turn at its end.

        Raises EngineError when the chat template refuses the chat or fails.
        """
        try:
            text = self._template.render(
                messages=[message.model_dump() for message in messages],
                add_generation_prompt=True,
                **self._tokens,
            )
        except Exception as error:  # a template is a program: it can fail in any way
            raise EngineError(f"the chat template refuses a prompt: {error}") from error
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids, special tokens left out."""
        return self._tokenizer.decode(list(ids), skip_special_tokens=True)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a checkpoint folder; raises EngineError when there is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise EngineError(
            f"{path} is missing: expected a Hugging Face checkpoint folder"
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise EngineError(f"cannot read {path}: {error}") from error
    if not isinstance(content, dict):
        raise EngineError(f"{path} holds no JSON object")
    return content


def _template_source(folder: Path, config: dict[str, Any]) -> str:
    file = folder / "chat_template.jinja"
    if file.is_file():
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise EngineError(f"cannot read {file}: {error}") from error
    template = config.get("chat_template")
    if isinstance(template, list):
        # Several named templates; the last of a name counts.
        default = [t for t in template if isinstance(t, dict) and t.get("name") == "default"]
        template = default[-1].get("template") if default else None
    if not isinstance(template, str):
        raise EngineError(
            f"{folder / 'tokenizer_config.json'} has no chat_template: expected text, or a list "
            "with a template named default"
        )
    return template


def _compile(source: str) -> Template:
    try:
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError as error:
        raise EngineError(_EXTRA) from error

    def raise_exception(message: str) -> NoReturn:
        raise TemplateError(message)

    # Options and globals are those of transformers' apply_chat_template.
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = lambda value, **options: json.dumps(
        value, ensure_ascii=False, **options
    )
    environment.globals["raise_exception"] = raise_exception
    try:
        return environment.from_string(source)
    except Exception as error:  # also Python's own, of the code that Jinja generates
        raise EngineError(f"the chat template has a syntax error: {error}") from error


def _special_tokens(config: dict[str, Any]) -> dict[str, str]:
    tokens = {}
    for name in ("bos_token", "eos_token", "unk_token", "pad_token"):
        value = config.get(name)
        if isinstance(value, dict):
            value = value.get("content")
        if isinstance(value, str):
            tokens[name] = value
    return tokens
