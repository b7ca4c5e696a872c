"""Turns pydantic's findings and unknown names into one sentence for a person."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails


def unknown_name(kind: str, given: str, valid: Iterable[str]) -> str:
    """Say that ``given`` is no ``kind``, with the closest match and every valid choice."""
    choices = sorted(valid)
    close = difflib.get_close_matches(given, choices, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ";"
    listing = ", ".join(choices) if choices else "(none)"
    return f"unknown {kind} {given!r}{hint} valid: {listing}"


def describe(error: ValidationError, model: type[BaseModel], kind: str) -> str:
    """One sentence on the first finding: the key, the value given and what is expected.

    ``kind`` names what the keys belong to, e.g. "recipe key".
    """
    finding = min(error.errors(), key=_unknown_first)
    key = _dotted(finding["loc"])
    if finding["type"] == "extra_forbidden":
        section = _section(model, finding["loc"][:-1])
        prefix = _dotted(finding["loc"][:-1])
        names = [f"{prefix}.{name}" if prefix else name for name in section.model_fields]
        return unknown_name(kind, key, names)
    if finding["type"] == "missing":
        return f"{kind} {key!r} is missing"
    expectation = re.sub(r"^(Value error, |Input |String |List )", "", finding["msg"])
    if finding["type"] == "model_type":
        expectation = "should be a section with keys of its own"
    if not key or (finding["type"] == "value_error" and isinstance(finding["input"], dict)):
        # A rule about several keys, which names them itself.
        return expectation
    return f"{kind} {key!r} is {shortened(finding['input'])}, but {expectation}"


def _unknown_first(finding: ErrorDetails) -> bool:
    """A misspelt key also makes the right key missing: the misspelling is the thing to say."""
    return finding["type"] != "extra_forbidden"


def _dotted(location: Sequence[int | str]) -> str:
    return ".".join(str(part) for part in location)


def _section(model: type[BaseModel], location: Sequence[int | str]) -> type[BaseModel]:
    """The nested model that ``location`` points into."""
    for part in location:
        if isinstance(part, int):
            continue
        model = _nested(model.model_fields[part].annotation) or model
    return model


def _nested(annotation: Any) -> type[BaseModel] | None:
    """The first model inside an annotation such as ``list[Model] | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_nested(argument) for argument in get_args(annotation))
    return next((model for model in found if model is not None), None)


def shortened(value: object, limit: int = 60) -> str:
    """``repr(value)``, cut to ``limit`` characters."""
    try:
        text = repr(value)
    except ValueError:
        # Python refuses to write integers of thousands of digits, which YAML reads as 0x....
        text = f"{type(value).__name__} too long to show"
    return text if len(text) <= limit else text[: limit - 1] + "…"
