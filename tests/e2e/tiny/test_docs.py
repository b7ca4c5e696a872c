"""Python in the README and the documentation runs, on a default-size run in runs/tiny."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from dwise_predict.cli.main import cli
from dwise_predict.cli.summary import print_summary
from dwise_predict.pipeline import RunResult
from tests.docs_pages import PAGES, ROOT, Block, blocks

WITH_PYTHON = [page for page in PAGES if any(blocks(page, "python"))]


@pytest.fixture(scope="module")
def place(result: RunResult) -> Path:
    """A folder with runs/tiny and the simulation that docs/simulator.md makes."""
    folder = result.folder.path.parents[1]
    before = Path.cwd()
    os.chdir(folder)
    try:
        flags = ("--profile", "runs/tiny", "--policy", "fcfs", "--policy", "dwise")
        made = CliRunner().invoke(cli, ["simulate", *flags, "--out", "runs/sim"])
    finally:
        os.chdir(before)
    assert made.exit_code == 0, made.output
    return folder


@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_blocks_run(page: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a page share their names, as a reader's session would."""
    monkeypatch.chdir(place)
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        if not block.why:
            exec(compile(block.body, f"{page.name}: {first_line(block)}", "exec"), names)


def first_line(block: Block) -> str:
    return block.body.split("\n", 1)[0]


def test_the_readme_shows_what_the_demo_prints(
    result: RunResult, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same lines; figures are those of another seed."""
    print_summary(result)
    printed = capsys.readouterr().out
    (shown,) = (
        block.body for block in blocks(ROOT / "README.md", "text") if "served:" in block.body
    )
    assert sorted(labels(shown)) == sorted(labels(printed))


def labels(text: str) -> list[list[str]]:
    """Words of the lines up to the first figure."""
    lines = (re.split(r"\s+\d|$", line, maxsplit=1)[0].split() for line in text.splitlines())
    return [words for words in lines if words and words[0] not in ("bundle", "report")]
