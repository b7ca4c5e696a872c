"""What cannot work is said in one line, with status 2, and nothing finished is lost."""

import json
import resource
import shutil
import time
from pathlib import Path

import pytest

from dwise_predict.errors import RunError
from dwise_predict.files import locked
from tests.runs import dwise, same_result, start_train, write_prompts

TRAIN = ("train", "--model", "recipe.yaml", "--workload")


@pytest.fixture
def desk(study: Path, tmp_path: Path) -> Path:
    """Recipe, checkpoint and prompts of the study, and an empty place for runs."""
    for name in ("recipe.yaml", "prompts.jsonl"):
        shutil.copy(study / name, tmp_path)
    (tmp_path / "checkpoint").symlink_to(study / "checkpoint")
    return tmp_path


def _refused(desk: Path, *arguments: object) -> str:
    result = dwise(*arguments, cwd=desk)
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    last = result.stderr.splitlines()[-1]
    assert last.startswith("error: ")
    return last


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (['{"prompt": "a"}', '{"prompt": }'], ["own.jsonl:2:12: not valid JSON"]),
        ([], ["own.jsonl has no requests"]),
        (['{"prompt": "same"}'] * 40, ["at least two different prompts"]),
        (['{"prompt": "a"}', '{"prompt": "b"}'], ["1 training and 1 evaluation", "are needed"]),
    ],
    ids=["malformed", "empty", "identical prompts", "two requests"],
)
def test_a_workload_that_cannot_train_is_refused_before_profiling(
    desk: Path, lines: list[str], words: list[str]
) -> None:
    (desk / "own.jsonl").write_text("".join(f"{line}\n" for line in lines))
    message = _refused(desk, *TRAIN, "own.jsonl")
    for word in words:
        assert word in message
    assert not (desk / "runs").exists()


def test_prompts_longer_than_the_context_are_named_and_the_run_can_be_corrected(desk: Path) -> None:
    prompts = (desk / "prompts.jsonl").read_text()
    long = json.dumps({"prompt": "word " * 200, "request_id": "the-long-one"})
    (desk / "own.jsonl").write_text(f"{prompts}{long}\n")
    message = _refused(desk, *TRAIN, "own.jsonl")
    assert "'the-long-one'" in message and "context of 512 tokens" in message
    (desk / "own.jsonl").write_text(prompts)
    corrected = dwise("profile", *TRAIN[1:], "own.jsonl", cwd=desk)
    assert corrected.returncode == 0, corrected.stderr


def test_one_category_only_trains_and_says_what_it_cannot_tell(desk: Path) -> None:
    write_prompts(desk / "own.jsonl", 72, categories="z")
    result = dwise(*TRAIN, "own.jsonl", cwd=desk)
    assert result.returncode == 0, result.stderr
    report = (desk / "runs" / "random" / "report.html").read_text()
    assert "Categories held out of training" in report


def test_a_place_that_cannot_be_written(desk: Path) -> None:
    assert "recipe.yaml is a file" in _refused(
        desk, *TRAIN, "prompts.jsonl", "--out", "recipe.yaml"
    )
    for place in ("/proc/none/run", "recipe.yaml/run"):
        message = _refused(desk, *TRAIN, "prompts.jsonl", "--out", place)
        assert place in message and "--out" in message


def test_a_full_disk_loses_nothing_that_was_finished(desk: Path, study: Path) -> None:
    def files_of_at_most(size: int):
        return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    flags = (*TRAIN, "prompts.jsonl", "--out", "run")
    for size, lost in ((2_000, "run/workload.jsonl"), (16_000, "run/bundle")):
        result = dwise(*flags, "--resume", cwd=desk, preexec=files_of_at_most(size))
        assert result.returncode == 2, result.stderr
        assert "cannot write" in result.stderr and lost in result.stderr.splitlines()[-1]
        assert "Traceback" not in result.stderr
    result = dwise(*flags, "--resume", cwd=desk)
    assert result.returncode == 0, result.stderr
    assert same_result(desk / "run", study / "run") == []


def test_a_corrupted_shard_is_named_and_served_again_once_deleted(desk: Path, study: Path) -> None:
    flags = (*TRAIN, "prompts.jsonl", "--out", "run")
    shards = desk / "run" / "profile" / "shards"
    process = start_train(*flags[1:], cwd=desk)
    while not (shards / "shard-00004").exists() and process.poll() is None:
        time.sleep(0.002)
    process.kill()
    process.communicate(timeout=60)
    damaged = shards / "shard-00003" / "requests.parquet"
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    message = _refused(desk, *flags, "--resume")
    assert "shard-00003" in message and "delete" in message
    shutil.rmtree(damaged.parent)
    result = dwise(*flags, "--resume", cwd=desk)
    assert result.returncode == 0, result.stderr
    assert same_result(desk / "run", study / "run") == []


def test_a_folder_with_a_run_is_not_touched(study: Path) -> None:
    message = _refused(study, *TRAIN, "prompts.jsonl", "--out", "run")
    assert "run holds a run already" in message and "--resume" in message


def test_resuming_as_something_else_names_the_difference(study: Path, tmp_path: Path) -> None:
    message = _refused(
        study, *TRAIN, "prompts.jsonl", "--out", "run", "--resume", "--set", "engine.slots=4"
    )
    assert "engine.slots: 8 -> 4" in message
    shutil.copytree(study, tmp_path / "study")
    prompts = tmp_path / "study" / "prompts.jsonl"
    prompts.write_text(prompts.read_text().replace("one", "ten", 1))
    message = _refused(tmp_path / "study", *TRAIN, "prompts.jsonl", "--out", "run", "--resume")
    assert "another workload (request 'line-" in message


def test_a_run_that_is_being_written_is_left_alone(study: Path) -> None:
    with locked(study / "run", RunError("held by the test")):
        message = _refused(study, *TRAIN, "prompts.jsonl", "--out", "run", "--resume")
    assert "another process is writing run" in message
