"""The documentation as several test modules read it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_FENCE = re.compile(
    r"(?:^[ ]*<!-- not run: (?P<why>.+?) -->\n+)?"
    r"^(?P<indent>[ ]*)```(?P<language>[a-z]*)[^\n]*\n(?P<body>.*?)^(?P=indent)```",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A fenced block; ``why`` says why it cannot be run, empty when it can."""

    page: Path
    language: str
    body: str
    why: str


def blocks(page: Path, *languages: str) -> Iterator[Block]:
    """Blocks of ``page`` in these languages; included files are left out."""
    for found in _FENCE.finditer(page.read_text(encoding="utf-8")):
        body = "\n".join(line.removeprefix(found["indent"]) for line in found["body"].splitlines())
        if found["language"] in languages and "--8<--" not in body:
            yield Block(page, found["language"], body, found["why"] or "")


def prose(page: Path) -> str:
    """The page without fenced blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def commands(text: str, prompted: bool) -> Iterator[str]:
    """Shell commands in a block, continued lines joined; with ``prompted`` those after ``$``."""
    lines = iter(text.splitlines())
    inside = None
    for line in lines:
        if inside is not None:  # a here document
            inside = None if line.strip() == inside else inside
            continue
        if prompted and not line.startswith("$ "):
            continue
        line = line.removeprefix("$ ")
        while line.endswith("\\"):
            line = line[:-1] + next(lines)
        if document := re.search(r"<<\s*'?(\w+)'?", line):
            inside = document[1]
        line = re.sub(r"(^|\s)#.*$", "", line)
        yield from (part.strip() for part in re.split(r";|&&|\||\bdo\b", line) if part.strip())
