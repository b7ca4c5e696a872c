"""The site's build refuses what would be broken for readers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs_pages import ROOT

pytest.importorskip("mkdocs", reason="make docs installs it")

BROKEN = """
[a page](nowhere.md), [a heading](concepts.md#nothing), [a name][dwise_predict.nothing],
<img src="https://elsewhere.example/picture.png">
"""


def test_broken_links_and_fetched_files_end_the_build(tmp_path: Path) -> None:
    """By the command that ``make docs`` runs."""
    (command,) = re.findall(r"\$\(MKDOCS\) (build.*)", (ROOT / "Makefile").read_text())
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    for name in ("mkdocs.yml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("examples", "dwise_predict"):
        (tmp_path / name).symlink_to(ROOT / name)
    with (tmp_path / "docs/faq.md").open("a", encoding="utf-8") as page:
        page.write(BROKEN)
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", *command.split()],
        cwd=tmp_path,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "DISABLE_MKDOCS_2_WARNING": "true"},
        capture_output=True,
        text=True,
    )
    assert built.returncode != 0
    told = [line for line in built.stderr.splitlines() if "faq.md" in line]
    for part in ("nowhere.md", "#nothing", "dwise_predict.nothing", "elsewhere.example"):
        assert any(part in line for line in told), part
