"""Wrong flags, names and keys through the real command line, before anything heavy is loaded."""

import os
from pathlib import Path

import pytest

from tests.runs import DWISE_TRAIN, dwise, write_prompts


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["trian"],
            ["unknown command 'trian'; did you mean 'train'?", "profile, pull, push, report"],
        ),
        (
            ["train", "--modle", "tiny"],
            ["unknown flag '--modle'; did you mean '--model'?", "--set"],
        ),
        (["train"], ["Missing option '--model'", "dwise train --help"]),
        (["train", "--model"], ["--model", "requires an argument"]),
        (["train", "--model", "tinny"], ["unknown model 'tinny'; did you mean 'tiny'? valid: "]),
        (["train", "--model", "absent.yaml"], ["cannot read recipe absent.yaml"]),
        (["train", "--model", "tiny", "extra"], ["unexpected extra argument"]),
        (["train", "--model", "tiny", "--seed", "x"], ["--seed", "'x' is not a valid integer"]),
        (["train", "--model", "tiny", "--seed", "-1"], ["--seed", "-1 is not in the range"]),
        (["train", "--profile", "x", "--seed", "-1"], ["--seed", "-1 is not in the range"]),
        (["train", "--profile", "x", "--seed", "4294967296"], ["--seed", "not in the range"]),
        (
            ["profile", "merge", "x", "--out", "y", "--seed", "-1"],
            ["--seed", "-1 is not in the range"],
        ),
        (["simulate", "--seed", "4294967296"], ["--seed", "not in the range"]),
        (["train", "--model", "tiny", "--out", ""], ["--out is empty: give it a value"]),
        (["train", "--model", "tiny", "--workload="], ["--workload is empty"]),
        (["verify", ""], ["an argument is empty"]),
        (["serve", "--bundle", "", "--"], ["--bundle is empty"]),
        (["train", "--model", "tiny", "--set", "engine.slot=3"], ["did you mean 'engine.slots'?"]),
        (["train", "--model", "tiny", "--set", "engine.slots=no"], ["'engine.slots' is False"]),
        (["train", "--model", "tiny", "--set", "seed"], ["expected section.key=value"]),
        (
            ["train", "--model", "tiny", "--plan", "--set", "decoding.parameters.treshold=1"],
            ["treshold", "did you mean 'threshold'?"],
        ),
        (["report"], ["Missing argument 'RUN'"]),
        (["report", "absent"], ["absent is no finished run"]),
        (["inspect", "absent"], ["unknown bundle 'absent'", "tiny", "ORG/NAME"]),
        (["inspect", "tiney"], ["unknown bundle 'tiney'; did you mean 'tiny'?"]),
        (["verify", "absent/folder/x"], ["neither a folder nor a Hub repository"]),
        (["verify", "sdar-8b"], ["no bundle of sdar-8b is published yet"]),
        (["inspect", "tiny@v1"], ["tiny is not on the Hub, so it has no revision 'v1'"]),
        (["diff", "tiny"], ["Missing argument 'B'"]),
        (["pull", "tiny"], ["'tiny' is no Hub repository: expected ORG/NAME"]),
        (["pull", "acme/x@"], ["'' is no branch, tag or commit"]),
        (["push", "tiny", "acme/tiny"], ["called dwise-<model>: push to acme/dwise-tiny"]),
        (["push", "tiny", "acme/dwise-x", "--with-prompts"], ["--with-prompts belongs to"]),
        (["push", "--profile", "absent", "acme/x"], ["absent is no profile folder"]),
        (["train", "--profile", "absent"], ["absent is no profile folder"]),
        (["train", "--profile", "x", "--plan"], ["--plan does not go with --profile"]),
        (["train", "--profile", "hub:x"], ["'x' is no Hub repository"]),
        (
            ["train", "--profile", "x", "--set", "engine.slots=2"],
            ["has been served already, so only predictors.* can be set"],
        ),
    ],
)
def test_one_line_on_stderr_and_status_2(
    tmp_path: Path, arguments: list[str], words: list[str]
) -> None:
    result = dwise(*arguments, cwd=tmp_path)
    assert result.returncode == 2, result.stderr
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    for word in words:
        assert word in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_help_names_every_verb_and_flag(tmp_path: Path) -> None:
    assert dwise("--help", cwd=tmp_path).stdout == dwise(cwd=tmp_path).stdout
    verbs = ("train", "profile", "report", "inspect", "verify", "diff", "push", "pull", "zoo")
    for verb in verbs:
        assert f"  {verb} " in dwise("--help", cwd=tmp_path).stdout
    own, alias = dwise("train", "-h", cwd=tmp_path), dwise("-h", cwd=tmp_path, program=DWISE_TRAIN)
    assert own.stdout.replace("dwise train", "dwise-train", 1) == alias.stdout
    for flag in (
        "--model",
        "--profile",
        "--workload",
        "--out",
        "--seed",
        "--set",
        "--resume",
        "--plan",
    ):
        assert flag in alias.stdout


def test_plan_prints_a_recipe_that_loads_and_writes_nothing(tmp_path: Path) -> None:
    first = dwise("train", "--model", "tiny", "--seed", 5, "--plan", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert "1024 training and 512 evaluation requests" in first.stdout
    assert "to do" in first.stdout and "runs/tiny/report.html" in first.stdout
    assert os.listdir(tmp_path) == []
    (tmp_path / "mine.yaml").write_text(first.stdout)
    assert dwise("train", "--model", "mine.yaml", "--plan", cwd=tmp_path).stdout == first.stdout


def test_plan_reads_the_workload(tmp_path: Path) -> None:
    write_prompts(tmp_path / "it's.jsonl", 100)
    result = dwise("train", "--model", "tiny", "--workload", "it's.jsonl", "--plan", cwd=tmp_path)
    assert "67 training and 33 evaluation requests" in result.stdout
    with (tmp_path / "it's.jsonl").open("a") as file:
        file.write('{"prompt": "a", "categroy": "b"}\n')
    result = dwise("train", "--model", "tiny", "--workload", "it's.jsonl", "--plan", cwd=tmp_path)
    assert "it's.jsonl:101: unknown key 'categroy'; did you mean 'category'?" in result.stderr
    assert result.returncode == 2
