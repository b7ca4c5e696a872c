"""``dwise experiment``: what it names and what it refuses, before anything is served."""

from __future__ import annotations

from pathlib import Path

import pytest

from dwise_predict.experiments.registry import EXPERIMENTS
from tests.runs import dwise


def test_the_list_has_a_line_for_each_with_its_table_or_figure(tmp_path: Path) -> None:
    result = dwise("experiment", "--list", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) == len(EXPERIMENTS)
    for line, experiment in zip(lines, EXPERIMENTS.values(), strict=True):
        assert line.split()[0] == experiment.name
        assert experiment.source in line
        assert all(f"not with {engine}" in line for engine in experiment.not_with)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["name an experiment, or all"]),
        (["tail"], ["unknown experiment 'tail'; did you mean 'tails'?", "all, "]),
        (["tails", "--model", "tinny"], ["unknown model 'tinny'; did you mean 'tiny'?"]),
        (["tails", "--engine", "vllm"], ["--engine", "simulator"]),
        (["tails", "--seeds", "0"], ["--seeds"]),
        (["tails", "--set", "seed=4"], ["--set seed", "how many with --seeds"]),
        (["tails", "--docs", "file"], ["--docs file is a file, expected a folder"]),
        (["tails", "--set", "engine.slot=3"], ["did you mean 'engine.slots'?"]),
        (
            ["overhead", "--engine", "simulator"],
            ["overhead cannot be run with --engine simulator: a replay takes no time"],
        ),
        (["tails", "--out", "file"], ["--out file is a file, expected a folder"]),
        (["tails", "--out", "other"], ["other is not empty and no folder of experiments"]),
    ],
)
def test_refusals_are_one_line(tmp_path: Path, arguments: list[str], words: list[str]) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    result = dwise("experiment", *arguments, cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1
    for word in words:
        assert word in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "other"]


def test_a_folder_holds_experiments_of_one_recipe(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    small = ["--set", "workload.eval=24"]
    (tmp_path / "out" / "recipe.yaml").write_text("name: tiny\n")
    damaged = dwise("experiment", "tails", "--out", "out", *small, cwd=tmp_path)
    assert damaged.returncode == 2
    assert "recipe.yaml is damaged" in damaged.stderr
    from dwise_predict.recipe import dump_recipe, load_recipe

    (tmp_path / "out" / "recipe.yaml").write_text(dump_recipe(load_recipe("tiny")))
    other = dwise("experiment", "tails", "--out", "out", *small, cwd=tmp_path)
    assert other.returncode == 2
    assert "out holds experiments with another recipe (workload.eval: 512 -> 24)" in other.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["recipe.yaml"]
