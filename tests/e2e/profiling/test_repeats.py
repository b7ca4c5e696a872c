"""Repeats and mixed batching on a random model: the built-in engine repeats itself exactly."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dwise_predict.bundle import PredictorBundle
from dwise_predict.errors import ProfileError, RecipeError
from dwise_predict.pipeline import run_profiling, run_training, run_training_from_profile
from dwise_predict.predictors.errors import TrainingError
from dwise_predict.profile import read_profile
from dwise_predict.progress import Advance
from dwise_predict.recipe import Recipe, load_recipe
from tests.runs import bundle_content, write_study

REPEATED = ("profile.repeats=3", "profile.compare_batching=true")
MEDIAN = "predictors.labels=median"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random checkpoint, a recipe and 72 prompts, with one undisturbed plain run in ``run``."""
    folder = write_study(tmp_path_factory.mktemp("study"))
    run_training(recipe_of(folder), folder / "run")
    return folder


def recipe_of(study: Path, *overrides: str) -> Recipe:
    own = (
        f"model.repo={study / 'checkpoint'}",
        "workload.name=jsonl",
        f"workload.path={study / 'prompts.jsonl'}",
    )
    return load_recipe(str(study / "recipe.yaml"), [*own, *overrides])


class Interrupting:
    """Raises KeyboardInterrupt after so many requests, as Control-C does at some moment."""

    def __init__(self, requests: int) -> None:
        self.left = requests

    @contextmanager
    def task(self, label: str, total: float) -> Iterator[Advance]:
        yield self._advance if label == "profile" else lambda steps: None

    def _advance(self, steps: float) -> None:
        self.left -= int(steps)
        if self.left < 0:
            raise KeyboardInterrupt

    def note(self, message: str) -> None:
        return


def test_repeats_and_batchings_agree_and_runs_stopped_in_them_go_on(
    study: Path, tmp_path: Path
) -> None:
    run, recipe = tmp_path / "run", recipe_of(study, *REPEATED)
    # 72 requests each: in the second, third and mixed serving, each time in another shard.
    for requests, stopped_in in ((100, "repeats/2"), (90, "repeats/3"), (80, "mixed")):
        with pytest.raises(KeyboardInterrupt):
            run_training(recipe, run, resume=True, progress=Interrupting(requests))
        assert (run / stopped_in / "shards").is_dir(), stopped_in
        assert not (run / "stability.json").exists()
    result = run_training(recipe, run, resume=True)
    assert result.stability is not None

    stability = json.loads((run / "stability.json").read_text())
    assert set(stability["profiles"]) == {"profile", "repeats/2", "repeats/3", "mixed"}
    pairs = [(each["a"], each["b"], each["batching"]) for each in stability["comparisons"]]
    assert pairs == [
        ("profile", "repeats/2", ["stock", "stock"]),
        ("profile", "repeats/3", ["stock", "stock"]),
        ("repeats/2", "repeats/3", ["stock", "stock"]),
        ("profile", "mixed", ["stock", "mixed"]),
    ]
    for each in stability["comparisons"]:
        assert set(each["by_category"]) == {"a", "b", "c"}
        for found in (each["overall"], *each["by_category"].values()):
            assert (found["identical"], found["mean_difference"]) == (1.0, 0.0)
    assert "Stability of labels" in (run / "report.html").read_text()

    profiles = {name: read_profile(run / name) for name in stability["profiles"]}
    orders = {name: tuple(p.requests["request_id"].to_pylist()) for name, p in profiles.items()}
    assert orders["mixed"] == orders["profile"]
    assert len({orders[name] for name in ("profile", "repeats/2", "repeats/3")}) == 3
    assert {*orders["repeats/2"]} == {*orders["profile"]}
    # Prompts and outputs share rounds under mixed batching, and never under stock batching.
    for name, shares in {"profile": False, "mixed": True}.items():
        rounds = profiles[name].rounds.to_pylist()
        assert any(0 < row["prefill_slots"] < row["slots"] for row in rounds) is shares
    # Repeats change neither the profile nor what is trained on it.
    assert bundle_content(run / "bundle") == bundle_content(study / "run" / "bundle")


def test_training_on_medians(study: Path, tmp_path: Path) -> None:
    """All repeats are the same here, so that the median's predictors are the first's."""
    recipe = recipe_of(study, "profile.repeats=2", MEDIAN)
    run_training(recipe, tmp_path / "run")
    bundle, first = (
        PredictorBundle.load(each / "bundle") for each in (tmp_path / "run", study / "run")
    )
    assert (bundle.provenance.repeats, first.provenance.repeats) == (2, 1)
    assert bundle.config.settings.labels == "median"
    assert bundle.files["refiner.safetensors"] == first.files["refiner.safetensors"]
    # The repeats come along when the profile of a run folder is trained from again.
    again = tmp_path / "again"
    run_training_from_profile(tmp_path / "run" / "profile", again, recipe.predictors)
    assert bundle_content(again / "bundle") == bundle_content(tmp_path / "run" / "bundle")
    assert (again / "stability.json").is_file()


def test_medians_of_one_profile_are_refused(study: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"profile\.repeats is 1: set it to 3"):
        recipe_of(study, MEDIAN)
    settings = recipe_of(study, "profile.repeats=2", MEDIAN).predictors
    with pytest.raises(TrainingError, match="profile with --repeats 3"):
        run_training_from_profile(study / "run" / "profile", tmp_path / "new", settings)


def test_a_damaged_repeat_is_named_and_can_be_served_again(study: Path, tmp_path: Path) -> None:
    run, recipe = tmp_path / "run", recipe_of(study, "profile.repeats=2")
    run_profiling(recipe, run)
    good = (run / "stability.json").read_bytes()
    (run / "repeats" / "2" / "requests.parquet").write_bytes(b"damage")
    with pytest.raises(ProfileError, match=f"delete the folder {run}/repeats/2 and run again"):
        run_profiling(recipe, run, resume=True)
    shutil.rmtree(run / "repeats" / "2")
    run_profiling(recipe, run, resume=True)
    assert (
        json.loads(good)["comparisons"]
        == (json.loads((run / "stability.json").read_text())["comparisons"])
    )
