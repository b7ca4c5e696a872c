"""Own prompts as JSON lines: ``{"prompt": "…"}`` or ``{"messages": [{"role": …, "content": …}]}``.

Optional keys of a line: ``category``, ``max_new_tokens``, ``answer``, ``request_id``, ``dataset``
and ``split``. Reading is strict, because a misspelt key would otherwise change the workload
without a word.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from dwise_predict.errors import WorkloadError
from dwise_predict.files import write_text
from dwise_predict.validation import describe
from dwise_predict.workload.schema import Message, Request, Split


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    prompt: str | None = None
    messages: list[Message] | None = Field(default=None, min_length=1)
    category: str = Field(default="default", min_length=1)
    max_new_tokens: int | None = Field(default=None, gt=0)
    answer: str | None = None
    request_id: str | None = Field(default=None, min_length=1)
    dataset: str = Field(default="own", min_length=1)
    split: Split | None = None

    @model_validator(mode="after")
    def _exactly_one_prompt(self) -> _Line:
        if (self.prompt is None) == (self.messages is None):
            raise ValueError("exactly one of 'prompt' and 'messages' is needed")
        if not any(turn.content.strip() for turn in self.turns):
            raise ValueError("the prompt is blank")
        return self

    @field_validator("answer")
    @classmethod
    def _some_answer(cls, value: str | None) -> str | None:
        if value is not None and not value.strip():
            raise ValueError("expected text; leave 'answer' out where there is none")
        return value

    @property
    def turns(self) -> tuple[Message, ...]:
        if self.messages is not None:
            return tuple(self.messages)
        return (Message(role="user", content=self.prompt or ""),)


def read_jsonl(path: Path) -> list[Request]:
    """Requests of a UTF-8 JSON-lines file, in file order; blank lines are skipped.

    A request without ``request_id`` is called ``line-N`` after its line number.
    Raises WorkloadError naming file, line and, for malformed JSON, column.
    """
    requests: list[Request] = []
    lines: dict[str, int] = {}
    for number, text in _lines(path):
        request = _request(text, number, path)
        if request.request_id in lines:
            raise WorkloadError(
                f"{path}:{number}: request_id {request.request_id!r} is taken by line "
                f"{lines[request.request_id]}; ids must be unique"
            )
        lines[request.request_id] = number
        requests.append(request)
    if not requests:
        raise WorkloadError(
            f"{path} has no requests; expected one JSON object per line with 'prompt' or 'messages'"
        )
    return requests


def dump_jsonl(requests: Sequence[Request]) -> str:
    """The lines :func:`read_jsonl` reads back as equal requests."""
    return "".join(
        json.dumps(request.model_dump(exclude_none=True), ensure_ascii=False) + "\n"
        for request in requests
    )


def write_jsonl(requests: Sequence[Request], path: Path) -> None:
    """Write requests atomically, one JSON object a line."""
    write_text(path, dump_jsonl(requests))


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines that are not blank, split at newlines only."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise WorkloadError(f"cannot read workload {path}: {error.strerror}") from error
    except ValueError as error:  # of paths with a NUL character
        raise WorkloadError(f"cannot read workload {str(path)!r}: {error}") from error
    for number, raw in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise WorkloadError(
                f"{path}:{number}: byte {error.start + 1} is not UTF-8; save the file as UTF-8"
            ) from error
        if text.strip():
            yield number, text


def _request(text: str, number: int, path: Path) -> Request:
    where = f"{path}:{number}"
    try:
        value = json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
        canonical = json.dumps(value, ensure_ascii=False).encode("utf-8")
        line = _Line.model_validate_json(canonical) if isinstance(value, dict) else None
    except json.JSONDecodeError as error:
        raise WorkloadError(f"{where}:{error.colno}: not valid JSON: {error.msg}") from error
    except UnicodeEncodeError as error:
        surrogate = f"\\u{ord(error.object[error.start]):04x}"
        raise WorkloadError(f"{where}: unpaired surrogate {surrogate} is no character") from error
    except ValidationError as error:
        raise WorkloadError(f"{where}: {describe(error, _Line, 'key')}") from error
    except RecursionError as error:
        raise WorkloadError(f"{where}: nested too deeply; expected one flat object") from error
    except ValueError as error:
        raise WorkloadError(f"{where}: {error}") from error
    if line is None:
        raise WorkloadError(f"{where}: expected a JSON object, got {type(value).__name__}")
    try:
        return Request(
            request_id=line.request_id or f"line-{number}",
            messages=line.turns,
            category=line.category,
            dataset=line.dataset,
            split=line.split,
            max_new_tokens=line.max_new_tokens,
            answer=line.answer,
        )
    except ValidationError as error:
        raise WorkloadError(f"{where}: {describe(error, Request, 'key')}") from error


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"key {twice!r} is given twice")
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
