"""Whether an output holds the expected answer, judged by the form of that answer."""

from __future__ import annotations

import re
from typing import Literal

Kind = Literal["number", "letter", "items", "text"]

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_LETTER = re.compile(r"\b[A-J]\b")


def answer_kind(answer: str) -> Kind:
    """The form of an expected answer: one number, one option letter, a comma list, other text."""
    if _NUMBER.fullmatch(_plain_numbers(answer.strip())):
        return "number"
    if _LETTER.fullmatch(answer.strip()):
        return "letter"
    return "items" if "," in answer else "text"


def answer_correct(answer: str, text: str) -> bool:
    """Check an output against the expected answer.

    A number must be the last number of the output (thousands separators are ignored) and an option
    letter the last letter that stands alone. A list of numbers must be exactly the numbers of the
    output, in that order. Other text must stand in the output as words, a comma list as a whole.

    Args:
        answer: expected answer.
        text: output of the model, special tokens removed.
    """
    kind = answer_kind(answer)
    if kind == "number":
        found = _NUMBER.findall(_plain_numbers(text))
        return bool(found) and float(found[-1]) == float(_plain_numbers(answer))
    if kind == "letter":
        found = _LETTER.findall(text)
        return bool(found) and found[-1] == answer.strip()
    if kind == "items":
        items = [item.strip().lower() for item in answer.split(",")]
        if all(_NUMBER.fullmatch(item) for item in items):
            # Lines may be numbered, "2. " or "2/3 ": those are no items.
            return _NUMBER.findall(re.sub(r"(?m)^\d+(?:\.|/\d+) ", "", text)) == items
    return _contains(text, answer)


def _plain_numbers(text: str) -> str:
    """Drop thousands separators: 1,200 is 1200."""
    return re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)


def _contains(text: str, answer: str) -> bool:
    """Whether the words of ``answer`` stand in ``text``, whatever case and white space.

    A comma list must stand there whole: neither longer than the answer nor part of another list.
    """
    before, after = (r"(?<!, )", r"(?!,)") if "," in answer else ("", "")
    words = re.escape(" ".join(answer.lower().split()))
    pattern = rf"{before}(?<!\w){words}(?!\w){after}"
    return re.search(pattern, " ".join(text.lower().split())) is not None
