"""What verbs about bundles say of names, folders and text that nobody meant well."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from dwise_predict.bundle.schema import config_bytes
from dwise_predict.zoo import bundled_folder
from tests import corruption
from tests.runs import dwise


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A bundle folder that a test may change."""
    return Path(shutil.copytree(bundled_folder("tiny"), tmp_path / "copy"))


def rewrite(folder: Path, section: str | None, **changes: object) -> None:
    """Change keys of config.json, every hash made right again."""
    path = folder / "config.json"
    content = json.loads(path.read_bytes())
    (content if section is None else content[section]).update(changes)
    path.write_bytes(config_bytes(content))
    corruption.rehash(folder)


def test_folders_of_other_things_are_no_bundle_and_stay(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    for place in ("thesis", ".", "/etc/passwd", "/"):
        result = dwise("inspect", place, cwd=tmp_path)
        assert result.returncode == 2
        assert result.stderr == f"error: {Path(place)} is no bundle: it has no config.json\n"


def test_a_later_version_is_upgraded_for_and_not_deleted(copy: Path) -> None:
    rewrite(copy, None, format_version="2.0")
    result = dwise("inspect", copy, cwd=copy.parent)
    assert result.returncode == 2
    assert "pip install --upgrade dwise-predict" in result.stderr
    assert "delete" not in result.stderr and "again" not in result.stderr


def test_names_in_a_bundle_do_not_move_the_cursor(copy: Path) -> None:
    evil = "\x1b[2J\x1b]0;owned\x07"
    rewrite(copy, "fingerprint", model=f"acme/{evil}", engine_version=evil)
    shown = [
        dwise("inspect", copy, cwd=copy.parent),
        dwise("diff", "tiny", copy, cwd=copy.parent),
        dwise("diff", copy, "tiny", cwd=copy.parent),
    ]
    for result in shown:
        assert "\\x1b[2J" in result.stdout, result.stderr
        assert "\x1b" not in result.stdout + result.stderr


def test_a_name_of_the_zoo_is_the_zoos_beside_a_run_folder(tmp_path: Path) -> None:
    (tmp_path / "tiny" / "bundle").mkdir(parents=True)
    result = dwise("inspect", "tiny", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "tiny (of this package)" in result.stdout
    refused = dwise("inspect", "./tiny", cwd=tmp_path)
    assert "./tiny is a run folder; its bundle is tiny/bundle" in refused.stderr


def test_an_endless_name_is_one_sentence(tmp_path: Path) -> None:
    result = dwise("inspect", "x" * 5000, cwd=tmp_path)
    assert result.returncode == 2 and result.stderr.count("\n") == 1
    assert "File name too long" in result.stderr


@pytest.mark.skipif(not os.path.ismount("/proc"), reason="there is no /proc")
def test_a_place_where_nothing_can_be_made_is_one_sentence(tmp_path: Path) -> None:
    for arguments in (
        ["train", "--model", "tiny", "--out", "/proc/none"],
        ["profile", "--model", "tiny", "--out", "/proc/none/run"],
    ):
        result = dwise(*arguments, cwd=tmp_path)
        assert result.returncode == 2
        error = result.stderr.splitlines()[-1]
        assert error.startswith("error: cannot create /proc/none")
        assert "choose another --out" in error and "Traceback" not in result.stderr
