import io
import re

import pytest

from dwise_predict.cli import display


class Clock:
    """A clock that only moves when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(display, "time", clock)
    return clock


def _serve(clock: Clock, total: int, seconds_per_step: float) -> list[str]:
    stream = io.StringIO()
    with display.progress_on(stream).task("profile", total) as advance:
        for _ in range(total):
            clock.now += seconds_per_step
            advance(1)
    return stream.getvalue().splitlines()


def test_a_pipe_gets_lines_at_the_start_every_tenth_and_the_end(clock: Clock) -> None:
    lines = _serve(clock, total=1000, seconds_per_step=0.05)
    assert lines[0] == "profile: started (1000)"
    assert lines[1] == "profile: 10% (100/1000), 45 s left"
    assert lines[-1] == "profile: done in 50 s"
    assert len(lines) == 11


def test_slow_work_says_something_every_ten_seconds(clock: Clock) -> None:
    lines = _serve(clock, total=50, seconds_per_step=6)
    assert len(lines) == 1 + 24 + 1
    assert lines[1] == "profile: 4% (2/50), 4 min 48 s left"


def test_quick_work_is_two_lines(clock: Clock) -> None:
    assert len(_serve(clock, total=1000, seconds_per_step=0.0005)) == 2


def test_a_failed_task_does_not_claim_to_be_done() -> None:
    stream = io.StringIO()
    with pytest.raises(ValueError), display.progress_on(stream).task("train", 3) as advance:
        advance(1)
        raise ValueError
    assert "done" not in stream.getvalue()


def test_an_empty_task_needs_no_special_case() -> None:
    stream = io.StringIO()
    with display.progress_on(stream).task("train", 0) as advance:
        advance(0)
    assert stream.getvalue().count("\n") == 2


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _on_terminal(monkeypatch: pytest.MonkeyPatch, **environment: str) -> str:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    stream = Terminal()
    progress = display.progress_on(stream)
    with progress.task("profile", 4) as outer, progress.task("shard", 2) as inner:
        inner(2)
        outer(4)
        progress.note("[note] kept as it is")
    return stream.getvalue()


def test_a_terminal_gets_nested_bars_with_time_left_and_colour(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = _on_terminal(monkeypatch)
    assert "4/4" in text and "2/2" in text and "left" in text
    assert "[note] kept as it is" in text
    assert re.search(r"\x1b\[[\d;]*3[0-9]", text)


def test_no_color_and_dumb_terminals_are_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not re.search(r"\x1b\[[\d;]*3[0-9]", _on_terminal(monkeypatch, NO_COLOR="1"))
    assert "\x1b" not in _on_terminal(monkeypatch, TERM="dumb")
