"""The verbs of ``dwise`` about bundles, as a user types them, against a hub on loopback."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import TypeAlias

import pytest

from dwise_predict.bundle import PredictorBundle
from tests.hub import Hub
from tests.runs import dwise

Run: TypeAlias = Callable[..., "CompletedProcess[str]"]


@pytest.fixture
def run(hub: Hub, tmp_path: Path) -> Run:
    """Run ``dwise`` as a user who is logged in to the hub."""
    variables = {
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(tmp_path / "hf"),
        "HF_HUB_DISABLE_XET": "1",
        "HF_TOKEN": "ann-token",
    }

    def run(*arguments: object, **more: str) -> CompletedProcess[str]:
        return dwise(*arguments, cwd=tmp_path, variables=variables | more)

    return run


def test_push_pull_verify_diff_inspect(run: Run, hub: Hub, made: Path, tmp_path: Path) -> None:
    pushed = run("push", made, "acme/dwise-dllm-mini", "--private", "--message", "first")
    assert pushed.returncode == 0, pushed.stderr
    commit = re.search(r"published  acme/dwise-dllm-mini@([0-9a-f]{40})\n", pushed.stdout)[1]
    assert hub.repo("acme/dwise-dllm-mini").private

    pulled = run("pull", "acme/dwise-dllm-mini@main", "--out", "copy")
    assert f"bundle  acme/dwise-dllm-mini@{commit}\nfolder  copy\n" in pulled.stdout, pulled.stderr
    assert f'from_pretrained("acme/dwise-dllm-mini", revision="{commit}")' in pulled.stdout
    assert PredictorBundle.load(tmp_path / "copy").files == PredictorBundle.load(made).files

    verified = run("verify", "acme/dwise-dllm-mini", "--offline")
    assert f"bundle       acme/dwise-dllm-mini@{commit}" in verified.stdout, verified.stderr
    assert "8 stored requests predicted again: the same" in verified.stdout

    same = run("diff", "copy", f"acme/dwise-dllm-mini@{commit}")
    assert same.returncode == 0
    assert "predictors: the same\n" in same.stdout
    differing = run("diff", "tiny", "copy")
    assert differing.returncode == 1
    assert "predictors: different\n" in differing.stdout
    assert "A where B is valid: incompatible\n" in differing.stdout
    assert "settings.refiner.width: 256 -> 16\n" in differing.stdout

    assert "acme/dllm-mini" in run("inspect", f"acme/dwise-dllm-mini@{commit}").stdout


def test_profiles_travel_and_train(run: Run, hub: Hub, profile: Path, tmp_path: Path) -> None:
    pushed = run("push", "--profile", profile, "acme/dwise-dllm-mini-profile")
    assert pushed.returncode == 0, pushed.stderr
    trained = run(
        *("train", "--profile", "hub:acme/dwise-dllm-mini-profile@main", "--seed", "3"),
        *("--set", "predictors.refiner.epochs=3", "--set", "predictors.refiner.width=8"),
    )
    assert trained.returncode == 0, trained.stderr
    run_folder = "runs/dwise-dllm-mini-profile"
    assert trained.stdout.endswith(f"report  {run_folder}/report.html\n")
    bundle = PredictorBundle.load(tmp_path / run_folder / "bundle")
    assert bundle.config.seed == 3
    assert bundle.config.settings.refiner.width == 8
    assert bundle.provenance.command.startswith("dwise train --profile hub:acme/dwise-dllm-mini")
    assert run("report", run_folder).returncode == 0
    pulled = run("pull", "--profile", "acme/dwise-dllm-mini-profile", "--out", "copy")
    assert "folder   copy\n" in pulled.stdout, pulled.stderr
    assert (tmp_path / "copy" / "run.json").read_bytes() == (profile / "run.json").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "variables", "words"),
    [
        (["pull", "acme/dwise-none"], {}, ["acme/dwise-none does not exist", "hf auth login"]),
        (["pull", "acme/dwise-none", "--offline"], {}, ["dwise pull acme/dwise-none"]),
        (["pull", "--profile", "acme/none"], {}, ["the data set acme/none does not exist"]),
        (["train", "--profile", "hub:acme/none"], {}, ["the data set acme/none does not exist"]),
        (["push", "tiny", "acme/dwise-tiny"], {"HF_TOKEN": "bob-token"}, ["HTTP 403", "no right"]),
        (["push", "tiny", "acme/dwise-tiny"], {"HF_TOKEN": ""}, ["needs a token"]),
        (["verify", "acme/dwise-x"], {"HF_HUB_OFFLINE": "1"}, ["HF_HUB_OFFLINE forbids"]),
        (["verify", "acme/dwise-x"], {"HF_ENDPOINT": "http://127.0.0.1:9"}, ["the connection to"]),
    ],
)
def test_failures_are_one_sentence(
    run: Run, arguments: list[str], variables: dict[str, str], words: list[str]
) -> None:
    result = run(*arguments, **variables)
    assert result.returncode == 2
    assert result.stdout == ""
    errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and errors[0] == result.stderr.splitlines()[-1]
    for word in words:
        assert word in errors[0]


def test_run_folders_are_pointed_into(run: Run, tmp_path: Path) -> None:
    (tmp_path / "run" / "bundle").mkdir(parents=True)
    for verb in (("verify", "run"), ("push", "run", "acme/dwise-x"), ("diff", "tiny", "run")):
        assert "run is a run folder; its bundle is run/bundle" in run(*verb).stderr
    assert "holds no workload.jsonl" in run(
        "push", "--profile", "--with-prompts", "run", "acme/x"
    ).stderr  # fmt: skip


def test_the_zoo_is_listed_without_a_network(run: Run, hub: Hub) -> None:
    listed = run("zoo")
    assert listed.returncode == 0
    for name in ("tiny", "llada2.0-mini", "llada2.1-mini", "llada2.2-mini", "sdar-8b"):
        assert re.search(rf"^{re.escape(name)} ", listed.stdout, flags=re.MULTILINE)
    assert "could not run" in listed.stdout
    assert hub.log == []
