"""How long work reports progress, without depending on how it is shown.

The command line shows bars on a terminal and plain lines elsewhere (``dwise_predict.cli``);
library calls default to :data:`SILENT`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

Advance = Callable[[float], None]


class Progress(Protocol):
    """Something that can show a named piece of work."""

    def task(self, label: str, total: float) -> AbstractContextManager[Advance]:
        """Open a task of ``total`` steps; call the yielded function with the steps just done."""
        ...

    def note(self, message: str) -> None:
        """Say one line."""
        ...


class _Silent:
    @contextmanager
    def task(self, label: str, total: float) -> Iterator[Advance]:
        yield lambda steps: None

    def note(self, message: str) -> None:
        return


SILENT: Progress = _Silent()
