"""Answers of a campaign, kept as they come: which requests were served, and what is to be checked.

A recording holds labels, never text; whether an answer was right is judged from this file. It only
grows. The last line of a killed driver may be cut: it is dropped, and its request sent again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from dwise_predict.errors import ProfileError
from dwise_predict.files import make_folder
from dwise_predict.workload.answers import answer_correct
from dwise_predict.workload.schema import Request

ANSWERS_FILE = "answers.jsonl"


class Answers:
    """The answers file of one campaign, open for appending; use as a context manager."""

    def __init__(self, path: Path) -> None:
        make_folder(path.parent)
        self.texts = dict(read_answers(path))
        """Text by request id; None of requests without an answer to check."""
        # Appended to: what an atomic rewrite of the whole would cost grows.
        self._file = path.open("ab")
        self._file.truncate(_complete(path.read_bytes()))

    def add(self, request: Request, text: str) -> None:
        """Keep that ``request`` was answered, and its text if there is something to check."""
        kept = None if request.answer is None else text
        line = json.dumps({"request_id": request.request_id, "text": kept})
        self._file.write(line.encode() + b"\n")
        self._file.flush()
        self.texts[request.request_id] = kept

    def __enter__(self) -> Answers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()


def read_answers(path: Path) -> dict[str, str | None]:
    """Texts by request id; empty when there is no file.

    Raises ProfileError when a line but the last, which may be cut, is damaged.
    """
    if not path.is_file():
        return {}
    content = path.read_bytes()
    texts: dict[str, str | None] = {}
    for number, line in enumerate(content[: _complete(content)].splitlines(), start=1):
        try:
            record: dict[str, Any] = json.loads(line)
            texts[record["request_id"]] = record["text"]
        except (ValueError, KeyError, TypeError) as error:
            raise ProfileError(
                f"{path} is damaged in line {number}: delete the file, its requests are served "
                "again"
            ) from error
    return texts


def correctness(requests: Iterable[Request], texts: Mapping[str, str | None]) -> dict[str, bool]:
    """Whether each request that has an expected answer, and was answered, got it right."""
    judged = {}
    for request in requests:
        text = texts.get(request.request_id)
        if request.answer is not None and text is not None:
            judged[request.request_id] = answer_correct(request.answer, text)
    return judged


def _complete(content: bytes) -> int:
    """Bytes up to the end of the last complete line."""
    return content.rfind(b"\n") + 1
