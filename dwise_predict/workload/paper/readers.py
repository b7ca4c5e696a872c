"""What a row of each public data set is made into."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_LETTERS = "ABCDEFGHIJ"
_HUMAN = ("human", "user")


@dataclass(frozen=True)
class Item:
    """One usable row: the fields of its template, and the answer where it can be checked."""

    fields: Mapping[str, str]
    answer: str | None = None

    @property
    def content(self) -> str:
        """The row's own text: what prompts are compared by, without words of the template."""
        return "\n".join(self.fields.values())


@dataclass(frozen=True)
class Reader:
    """``read`` gives None for rows that are no prompt. Raises KeyError for a missing column."""

    fields: tuple[str, ...]
    read: Callable[[Mapping[str, Any]], Item | None]


def _sharegpt(row: Mapping[str, Any]) -> Item | None:
    """The opening message; conversations that begin with an answer are left out."""
    turns = row["conversations"]
    if not turns or turns[0]["from"] not in _HUMAN:
        return None
    return Item({"prompt": turns[0]["value"].strip()})


def _mbpp(row: Mapping[str, Any]) -> Item:
    return Item({"text": row["text"].strip(), "tests": "\n".join(row["test_list"])})


def _prompt(row: Mapping[str, Any]) -> Item:
    return Item({"prompt": row["prompt"].strip()})


def _math(row: Mapping[str, Any]) -> Item | None:
    """Problems of the hardest level."""
    if row["level"] != "Level 5":
        return None
    return Item({"problem": row["problem"].strip()}, last_boxed(row["solution"]))


def _gsm8k(row: Mapping[str, Any]) -> Item:
    _, _, answer = row["answer"].rpartition("####")
    return Item({"question": row["question"].strip()}, answer.strip())


def _mgsm(row: Mapping[str, Any]) -> Item:
    return Item({"question": str(row["question"]).strip()}, str(row["answer"]).strip())


def _mmlu_pro(row: Mapping[str, Any]) -> Item:
    return _choice(row["question"], row["options"], int(row["answer_index"]))


def _arc(row: Mapping[str, Any]) -> Item:
    choices = row["choices"]
    # Some questions number their options.
    return _choice(row["question"], choices["text"], list(choices["label"]).index(row["answerKey"]))


def _choice(question: str, options: Sequence[str], right: int) -> Item:
    lines = [f"{letter}. {text.strip()}" for letter, text in zip(_LETTERS, options, strict=False)]
    return Item({"question": question.strip(), "options": "\n".join(lines)}, _LETTERS[right])


def last_boxed(solution: str) -> str | None:
    r"""What the last ``\boxed{...}`` of a worked solution holds, braces balanced."""
    start = [match.end() for match in re.finditer(r"\\(?:boxed|fbox)\{", solution)]
    if not start:
        return None
    depth, position = 1, start[-1]
    while position < len(solution):
        depth += {"{": 1, "}": -1}.get(solution[position], 0)
        if depth == 0:
            return solution[start[-1] : position].strip() or None
        position += 1
    return None


READERS: Mapping[str, Reader] = {
    "sharegpt": Reader(("prompt",), _sharegpt),
    "mbpp": Reader(("text", "tests"), _mbpp),
    "humaneval": Reader(("prompt",), _prompt),
    "ifeval": Reader(("prompt",), _prompt),
    "math": Reader(("problem",), _math),
    "gsm8k": Reader(("question",), _gsm8k),
    "mgsm": Reader(("question",), _mgsm),
    "mmlu_pro": Reader(("question", "options"), _mmlu_pro),
    "arc": Reader(("question", "options"), _arc),
}
