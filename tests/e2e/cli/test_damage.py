"""Damaged or foreign files in a run: named in one line, with advice that works when followed."""

import hashlib
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dwise_predict import PredictorBundle
from dwise_predict.errors import ReportError, RunError
from dwise_predict.evaluation.report import write_report
from dwise_predict.files import locked
from dwise_predict.profile import read_profile
from dwise_predict.run_folder import RunFolder
from dwise_predict.tables import read_table
from tests.runs import dwise, same_result

FLAGS = ("--model", "recipe.yaml", "--workload", "prompts.jsonl", "--out", "run")


@pytest.fixture
def copy(study: Path, tmp_path: Path) -> Path:
    """A study of one's own, to damage."""
    return Path(shutil.copytree(study, tmp_path / "study"))


def _refused(cwd: Path, *arguments: object) -> str:
    result = dwise(*arguments, cwd=cwd)
    assert result.returncode == 2, result.stderr
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.mark.parametrize("kept", ["recipe.yaml", "workload.jsonl"])
def test_files_of_the_user_in_an_otherwise_empty_folder_are_not_overwritten(
    copy: Path, kept: str
) -> None:
    mine = copy / "mine"
    mine.mkdir()
    shutil.copy(copy / "recipe.yaml", mine / "recipe.yaml")
    shutil.copy(copy / "prompts.jsonl", mine / "workload.jsonl")
    flags = {"recipe.yaml": "--model", "workload.jsonl": "--workload"}
    arguments = {"--model": "recipe.yaml", "--workload": "prompts.jsonl", "--out": "mine"}
    arguments[flags.pop(kept)] = f"mine/{kept}"
    for other in flags:
        (mine / other).unlink()
    before = (mine / kept).read_bytes()
    for resume in ([], ["--resume"]):
        words = [word for flag in arguments.items() for word in flag]
        message = _refused(copy, "train", *words, *resume)
        assert f"mine holds a {kept} that is not this run's; choose another --out" in message
    assert [path.name for path in mine.iterdir()] == [kept]
    assert (mine / kept).read_bytes() == before


def test_a_run_that_fails_before_its_profile_leaves_no_files(copy: Path) -> None:
    _refused(copy, "train", *FLAGS[:-1], "new", "--set", "model.repo=run")
    assert list((copy / "new").iterdir()) == []


@pytest.mark.parametrize("resume", [[], ["--resume"]], ids=["new", "resume"])
def test_nobody_is_told_to_delete_a_folder_that_is_no_run(copy: Path, resume: list[str]) -> None:
    message = _refused(copy, "train", *FLAGS[:-1], "checkpoint", *resume)
    assert "checkpoint is not empty and no run folder; choose another --out" in message
    assert "delete" not in message


def test_a_damaged_profile_is_noticed_by_every_verb_and_can_be_made_again(
    copy: Path, study: Path
) -> None:
    run = copy / "run"
    (run / "profile" / "rounds.parquet").write_bytes(b"damaged")
    (run / "predictions.parquet").unlink()
    for verb in ("profile", "train"):
        message = _refused(copy, verb, *FLAGS, "--resume")
        assert "run/profile/rounds.parquet is corrupted" in message
        assert "delete the folder run/profile and run again with --resume" in message
    shutil.rmtree(run / "profile")
    _succeeds_and_belongs_together(copy)
    assert same_result(run, study / "run") == []


def test_predictors_of_a_profile_that_was_deleted_are_made_again(copy: Path) -> None:
    shutil.rmtree(copy / "run" / "profile")
    _succeeds_and_belongs_together(copy)


def _succeeds_and_belongs_together(copy: Path) -> None:
    run = copy / "run"
    (run / "report.html").write_text("stale")
    result = dwise("train", *FLAGS, "--resume", cwd=copy)
    assert result.returncode == 0, result.stderr
    files = json.dumps(read_profile(run / "profile").run.files, sort_keys=True)
    provenance = PredictorBundle.load(run / "bundle").provenance
    assert provenance.profile_sha256 == hashlib.sha256(files.encode()).hexdigest()
    assert (run / "report.html").read_text() != "stale"


@pytest.mark.parametrize("name", ["config.json", "admission.txt"])
def test_a_damaged_bundle_can_be_made_again(copy: Path, study: Path, name: str) -> None:
    run = copy / "run"
    (run / "bundle" / name).unlink()
    message = _refused(copy, "train", *FLAGS, "--resume")
    assert name in message
    assert "delete the folder run/bundle and run again with --resume" in message
    assert "training" not in message
    shutil.rmtree(run / "bundle")
    _succeeds_and_belongs_together(copy)
    assert same_result(run, study / "run") == []


def _changed(table: pa.Table, damage: str) -> pa.Table:
    if damage == "a column is missing":
        return table.drop_columns(["refined"])
    if damage == "other ids":
        ids = pa.array([f"x{i}" for i in range(len(table))])
        return table.set_column(0, "request_id", ids)
    if damage == "not finite":
        return table.set_column(6, "refined", pa.array([float("nan")] * len(table)))
    return table.slice(0, 0)


@pytest.mark.parametrize(
    "damage", ["no Parquet", "cut", "a column is missing", "other ids", "no rows", "not finite"]
)
def test_damaged_predictions_are_named_by_the_report(copy: Path, damage: str) -> None:
    path = copy / "run" / "predictions.parquet"
    if damage == "no Parquet":
        path.write_bytes(b"damaged")
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    else:
        pq.write_table(_changed(read_table(path), damage), path)
    with pytest.raises(ReportError) as caught:
        write_report(RunFolder(copy / "run"))
    assert str(caught.value) == f"{path} is damaged; delete it and run again with --resume"


@pytest.mark.parametrize("content", [b"\xff\xfe", b'{"messages": [{"ro'], ids=["bytes", "cut"])
def test_a_damaged_copy_of_the_workload_is_called_that(copy: Path, content: bytes) -> None:
    with (copy / "run" / "workload.jsonl").open("ab") as file:
        file.write(content)
    message = _refused(copy, "train", *FLAGS, "--resume")
    assert "the run's copy of its workload is damaged (run/workload.jsonl:73" in message
    assert "choose another --out" in message


def test_the_report_of_a_run_that_is_being_written_is_left_alone(copy: Path) -> None:
    with locked(copy / "run", RunError("held by the test")):
        message = _refused(copy, "report", "run")
    assert "another process is writing run" in message
