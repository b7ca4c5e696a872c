"""Text of strangers on a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """``text`` with what a terminal would obey instead of show written as escapes, like ``\\x1b``.

    Names in a bundle come from whoever wrote it. Line ends and tabs stay.
    """
    return "".join(
        character
        if character.isprintable() or character in "\n\t"
        else character.encode("unicode_escape").decode()
        for character in text
    )
