"""Whether an output holds the expected answer, judged by the form of that answer."""

from __future__ import annotations

import re
from typing import Literal

Kind = Literal["number", "letter", "items", "text"]

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_LETTER = re.compile(r"\b[A-J]\b")


def answer_kind(answer: str) -> Kind:
    """The form of an expected answer: one number, one option letter, a comma list, other text."""
    if _NUMBER.fullmatch(answer.strip()):
        return "number"
    if _LETTER.fullmatch(answer.strip()):
        return "letter"
    return "items" if "," in answer else "text"


def answer_correct(answer: str, text: str) -> bool:
    """Check an output against the expected answer.

    A number must be the last number of the output (thousands separators are ignored), an option
    letter the last letter that stands alone, items must be exactly those found in the output in
    that order (numbers only are looked at when all items are numbers), and other text must be the
    whole output or stand in it as words.

    Args:
        answer: expected answer.
        text: output of the model, special tokens removed.
    """
    kind = answer_kind(answer)
    if kind == "number":
        found = _NUMBER.findall(re.sub(r"(?<=\d),(?=\d{3}\b)", "", text))
        return bool(found) and float(found[-1]) == float(answer)
    if kind == "letter":
        found = _LETTER.findall(text)
        return bool(found) and found[-1] == answer.strip()
    if kind == "items":
        items = [item.strip().lower() for item in answer.split(",")]
        if all(_NUMBER.fullmatch(item) for item in items):
            # Lines may be numbered, "2. " or "2/3 ": those are no items.
            return _NUMBER.findall(re.sub(r"(?m)^\d+(?:\.|/\d+) ", "", text)) == items
        return [item.strip().lower() for item in text.split(",")] == items
    pattern = rf"(?<!\w){re.escape(' '.join(answer.lower().split()))}(?!\w)"
    return re.search(pattern, " ".join(text.lower().split())) is not None
