from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dwise_predict.errors import ExperimentError
from dwise_predict.experiments.work import Stage, Work, run_all
from dwise_predict.progress import SILENT
from tests.experiments import LOG, die, fail, note, note_slowly, settings

ROOT = Path(__file__).parents[3]


def done(out: Path) -> list[str]:
    return (out / LOG).read_text().split()


def test_each_piece_is_done_once_and_stage_by_stage(tmp_path: Path) -> None:
    work = [
        Work(Stage.SERVED, "served", note, ("served",)),
        Work(Stage.BASE, "base-1", note_slowly, ("base-1",)),
        Work(Stage.BASE, "base-2", note, ("base-2",)),
        Work(Stage.BASE, "base-1", note_slowly, ("base-1",)),
    ]
    run_all(work, settings(tmp_path), SILENT)
    assert sorted(done(tmp_path)[:2]) == ["base-1", "base-2"]
    assert done(tmp_path)[2:] == ["served"]


def test_what_is_there_is_not_done_again(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("")
    work = [Work(Stage.BASE, name, note, (name,)) for name in ("old", "new")]
    run_all(work, settings(tmp_path), SILENT)
    assert done(tmp_path) == ["new"]


def test_it_is_done_again_once_a_part_is_gone(tmp_path: Path) -> None:
    work = [Work(Stage.BASE, "place", note, ("place",), parts=("part-1", "part-2"))]
    for name in ("place", "part-1", "part-2"):
        (tmp_path / name).write_text("")
    run_all(work, settings(tmp_path), SILENT)
    assert not (tmp_path / LOG).exists()
    (tmp_path / "part-2").unlink()
    run_all(work, settings(tmp_path), SILENT)
    assert done(tmp_path) == ["place"]


def test_an_error_ends_it_and_keeps_what_is_finished(tmp_path: Path) -> None:
    work = [
        Work(Stage.BASE, "good", note, ("good",)),
        Work(Stage.SERVED, "bad", fail, ("bad",)),
        Work(Stage.ALONE, "later", note, ("later",)),
    ]
    with pytest.raises(ValueError, match="no bad today"):
        run_all(work, settings(tmp_path), SILENT)
    assert done(tmp_path) == ["good"]


def test_what_needs_the_machine_alone_is_done_in_turn(tmp_path: Path) -> None:
    work = [Work(Stage.ALONE, name, note_slowly, (name,)) for name in ("a", "b", "c")]
    run_all(work, settings(tmp_path, workers=3), SILENT)
    assert done(tmp_path) == ["a", "b", "c"]
    assert len({(tmp_path / name).read_text() for name in ("a", "b", "c")}) == 1


def test_a_killed_process_is_said_to_be_one(tmp_path: Path) -> None:
    work = [Work(Stage.BASE, "one", die, ("one",))]
    with pytest.raises(ExperimentError, match=r"killed from outside.* fewer --processes"):
        run_all(work, settings(tmp_path), SILENT)


@pytest.mark.parametrize(
    ("name", "error"),
    [("fail", "ValueError"), ("die", "ExperimentError"), ("wait", "KeyboardInterrupt")],
)
def test_nothing_is_left_behind_that_python_would_complain_about(
    tmp_path: Path, name: str, error: str
) -> None:
    script = (
        "import pathlib, signal, tests.experiments as t; "
        "signal.signal(signal.SIGINT, signal.default_int_handler); "
        f"t.work_and_leave(pathlib.Path({str(tmp_path)!r}), {name!r})"
    )
    # Python's tracker of semaphores writes last, and holds the pipes open until then.
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    if name == "wait":
        deadline = time.monotonic() + 60
        while not (tmp_path / LOG).exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
    said, complaints = process.communicate(timeout=60)
    assert (said, complaints) == (f"{error}\n", "")
