"""The pictures of the documentation come from runs that really happen."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.docs_pages import ROOT

COMMAND = [sys.executable, str(ROOT / "docs/figures/draw.py")]


def test_pictures_are_drawn_from_served_requests(tmp_path: Path) -> None:
    drawn = subprocess.run(
        [*COMMAND, "--requests", "96", "--out", str(tmp_path)], capture_output=True, text=True
    )
    assert drawn.returncode == 0, drawn.stderr
    fcfs, dwise = re.findall(r"96 requests, (\d+) rounds, ([\d.]+) slots", drawn.stdout)
    assert int(dwise[0]) < int(fcfs[0]) and float(dwise[1]) > float(fcfs[1])
    shipped = {path.name for path in (ROOT / "docs/figures").glob("*.svg")}
    assert {path.name for path in tmp_path.iterdir()} == shipped
    for name in shipped:
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert "DWISE" in text and "FCFS, prefill first" in text


def test_the_pages_say_what_was_printed() -> None:
    """Rounds do not depend on the machine, so the page's must be those of the shipped pictures."""
    page = (ROOT / "docs/concepts.md").read_text(encoding="utf-8")
    picture = (ROOT / "docs/figures/rounds.svg").read_text(encoding="utf-8")
    totals = re.findall(r"512 requests, (\d+) rounds", page)
    assert len(totals) == 2
    assert re.findall(r"rounds \d+ to \d+ of (\d+),", picture) == totals
