"""What ``dwise serve`` and ``dwise profile serve`` refuse before SGLang is asked for anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runs import dwise


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("serve", "--bundle", "tiny", "--sampel", "0.5"), "--sampel"),
        (("serve", "--bundle", "tiny", "--model-path", "m"), "--model-path"),
        (("serve", "--bundle", "tiny", "--record", "r", "--sample", "nan"), "nan is no share"),
        (("serve", "--bundle", "tiny", "--sample", "0.5"), "--record"),
        (("profile", "serve", "--model", "tiny", "--recordings", "r"), "--recordings"),
    ],
)
def test_flags_that_are_not_its_own_are_refused(
    tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    refused = dwise(*words, cwd=tmp_path)
    assert refused.returncode == 2
    assert told in refused.stderr and "Traceback" not in refused.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "url",
    ["http://host:99999", "http://host:x", "http://:30000", "http://host:1/?a=b", "ftp://host:1",
     "http://host:0", "http://ho st:1", "host:1"],
)  # fmt: skip
def test_addresses_of_servers_are_checked(tmp_path: Path, url: str) -> None:
    refused = dwise("profile", "--model", "tiny", "--server", url, cwd=tmp_path)
    assert refused.returncode == 2
    assert "--server" in refused.stderr and "no address of a server" in refused.stderr


def test_flags_before_a_command_of_profile_are_not_dropped(tmp_path: Path) -> None:
    refused = dwise("profile", "--model", "tiny", "merge", "rec", "--out", "p", cwd=tmp_path)
    assert refused.returncode == 2
    assert "--model would do nothing for merge" in refused.stderr


def test_flags_of_servers_are_named_where_there_are_none(tmp_path: Path) -> None:
    refused = dwise("profile", "--model", "tiny", "--in-flight", "3", cwd=tmp_path)
    assert refused.returncode == 2 and "--in-flight" in refused.stderr


def test_foreign_folders_are_not_recorded_into(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("kept")
    refused = dwise(
        *("profile", "serve", "--model", "tiny", "--set", "engine.name=sglang"),
        *("--recording", "mine"),
        cwd=tmp_path,
    )
    assert refused.returncode == 2
    assert "--recording mine is no recording, and not empty" in refused.stderr
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.txt"]


def test_launch_files_that_were_edited_stay(tmp_path: Path) -> None:
    for _ in range(2):  # as they were written, they may be written again
        assert dwise("profile", "launch-files", "--out", "f", cwd=tmp_path).returncode == 0
    edited = tmp_path / "f" / "slurm.sh"
    edited.write_text("#!/bin/sh\n")
    refused = dwise("profile", "launch-files", "--out", "f", cwd=tmp_path)
    assert refused.returncode == 2 and "slurm.sh" in refused.stderr
    assert edited.read_text() == "#!/bin/sh\n"
