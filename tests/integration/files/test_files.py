from __future__ import annotations

import errno
from pathlib import Path

import pytest

from dwise_predict.files import make_folder, write_bytes, write_folder

PROC = Path("/proc")
needs_proc = pytest.mark.skipif(not PROC.is_mount(), reason="there is no /proc")


def test_a_folder_is_written_where_a_link_points(tmp_path: Path) -> None:
    (tmp_path / "targets").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "targets" / "new")
    write_folder(link, {"a": b"1"})
    assert link.is_symlink() and (tmp_path / "targets" / "new" / "a").read_bytes() == b"1"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "targets"]
    assert [path.name for path in (tmp_path / "targets").iterdir()] == ["new"]


def test_folders_are_made_and_may_be_there(tmp_path: Path) -> None:
    for _ in range(2):
        make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


@needs_proc
def test_a_place_where_nothing_can_be_made_names_itself() -> None:
    for attempt, place in (
        (lambda: make_folder(PROC / "none"), "/proc/none"),
        (lambda: write_bytes(PROC / "none" / "x", b""), "/proc/none"),
        (lambda: write_bytes(PROC / "none", b""), "/proc/none"),
    ):
        with pytest.raises(PermissionError, match="can be made there") as refused:
            attempt()
        assert refused.value.errno == errno.EPERM
        assert refused.value.filename == place


def test_a_folder_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "folder"):
        with pytest.raises(NotADirectoryError) as refused:
            make_folder(place)
        assert refused.value.filename == str(place)
