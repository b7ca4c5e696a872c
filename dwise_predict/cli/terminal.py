"""Where tables are printed."""

from __future__ import annotations

from rich.console import Console

_WIDTH = 180


def output_console() -> Console:
    """Standard output; a file or a pipe has no width that tables would be cut to."""
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = _WIDTH
    return console
