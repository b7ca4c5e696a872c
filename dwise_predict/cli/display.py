"""How progress looks: bars with the time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import (
    Progress as RichProgress,
)

from dwise_predict.progress import Advance, Progress

_SHARE_STEP = 0.1
_SECONDS_STEP = 10.0
_LEAST_SECONDS = 1.0


def progress_on(stream: IO[str] | None = None) -> Progress:
    """Progress for ``stream`` (default: standard error). Colours follow NO_COLOR and TERM."""
    console = Console(file=stream or sys.stderr)
    if console.is_terminal and not console.is_dumb_terminal:
        return Bars(console)
    return Lines(console.file)


class Bars:
    """One bar per open task; a finished bar stays as a line."""

    def __init__(self, console: Console) -> None:
        self._bars = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
        )
        self._open = 0

    @contextmanager
    def task(self, label: str, total: float) -> Iterator[Advance]:
        """Show a bar; the live display runs while any task is open."""
        if self._open == 0:
            self._bars.start()
        self._open += 1
        bar = self._bars.add_task(label, total=total)
        try:
            yield lambda steps: self._bars.advance(bar, steps)
        finally:
            self._open -= 1
            if self._open == 0:
                self._bars.stop()
                for task in self._bars.task_ids:
                    self._bars.remove_task(task)

    def note(self, message: str) -> None:
        """Print a line above the bars."""
        self._bars.console.print(message, highlight=False, markup=False)


class Lines:
    """A line when a task starts and ends, and about every tenth of it or ten seconds between."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    @contextmanager
    def task(self, label: str, total: float) -> Iterator[Advance]:
        """Print lines for one task; an exception leaves it without an end line."""
        started = said_at = time.monotonic()
        done = said = 0.0
        self.note(f"{label}: started ({total:g})")

        def advance(steps: float) -> None:
            nonlocal done, said, said_at
            done += steps
            now = time.monotonic()
            waited = now - said_at
            far = done - said >= _SHARE_STEP * total and waited >= _LEAST_SECONDS
            if done < total and (far or waited >= _SECONDS_STEP):
                said, said_at = done, now
                left = (now - started) / done * (total - done) if done else float("nan")
                self.note(f"{label}: {done / total:.0%} ({done:g}/{total:g}), {_span(left)} left")

        yield advance
        self.note(f"{label}: done in {_span(time.monotonic() - started)}")

    def note(self, message: str) -> None:
        """Print a line at once, so that a log can be followed."""
        print(message, file=self._stream, flush=True)


def _span(seconds: float) -> str:
    if seconds != seconds:
        return "unknown time"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
