"""What is said when a place cannot be written."""

from __future__ import annotations

import errno
import os

import click
import pytest

from dwise_predict.cli.main import _can_resume, _run, cli
from dwise_predict.cli.train import train


@pytest.mark.parametrize(
    ("arguments", "resumable"),
    [
        (["train", "--model", "tiny"], True),
        (["profile", "--model", "tiny"], True),
        (["train", "--profile", "hub:acme/x"], False),
        (["train", "--profile=hub:acme/x"], False),
        (["simulate", "--synthetic", "9"], False),
        (["paper", "all"], False),
        (["push", "--profile", "x", "acme/x"], False),
    ],
)
def test_only_what_can_be_resumed_is_said_to_be(arguments: list[str], resumable: bool) -> None:
    assert _can_resume(cli, arguments) is resumable
    if arguments[0] == "train":
        assert _can_resume(train, arguments[1:]) is resumable


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_a_full_or_forbidden_place_is_one_sentence(
    code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_: object) -> None:
        raise OSError(code, os.strerror(code), "runs/x")

    once = click.Command("once", callback=fail)
    resumable = click.Command(
        "resumable", callback=fail, params=[click.Option(["--resume"], is_flag=True)]
    )
    assert _run(once, "once", []) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: cannot write runs/x: {os.strerror(code)}; ")
    assert "choose another place" in said and "resume" not in said
    assert _run(resumable, "resumable", []) == 2
    assert "continue with --resume, nothing finished is lost" in capsys.readouterr().err
