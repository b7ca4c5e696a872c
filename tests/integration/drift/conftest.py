"""A bundle in a run folder, and profiles of later traffic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dwise_predict.pipeline import run_training_from_profile
from dwise_predict.predictors.examples import Examples
from dwise_predict.recipe import PredictorSettings, RefinerSettings
from tests.synthetic import synthetic_examples, write_profile

SETTINGS = PredictorSettings(
    refiner=RefinerSettings(width=32, epochs=30, patience=6, members=2, calibration_folds=2)
)


def traffic(
    folder: Path,
    train: Examples,
    evaluation: Examples,
    change: Callable[[Examples], Examples] = lambda examples: examples,
    workload: str = "",
) -> Path:
    """A profile whose workload has an identity of its own, as profiles of other prompts have."""
    write_profile(folder, change(train), change(evaluation))
    path = folder / "run.json"
    identity = (workload or folder.name).encode().hex().ljust(64, "0")[:64]
    path.write_text(path.read_text().replace("0" * 64, identity))
    return folder


def longer(examples: Examples) -> Examples:
    """The same requests, which take half as long again."""
    rounds = np.rint(examples.rounds * 1.5).astype(np.int64)
    return replace(examples, rounds=np.maximum(rounds, 1))


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder: a profile of 600 requests and the bundle that was trained on it."""
    folder = tmp_path_factory.mktemp("base")
    profile = traffic(
        folder / "profiled", synthetic_examples(400, 1, 24), synthetic_examples(200, 2, 24)
    )
    run_training_from_profile(profile, folder / "run", SETTINGS, seed=0)
    return folder / "run"


@pytest.fixture(scope="session")
def same(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Later traffic of the same kind."""
    folder = tmp_path_factory.mktemp("later") / "same"
    return traffic(folder, synthetic_examples(400, 3, 24), synthetic_examples(300, 4, 24))


@pytest.fixture(scope="session")
def drifted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Later traffic that takes half as long again."""
    folder = tmp_path_factory.mktemp("later") / "drifted"
    return traffic(folder, synthetic_examples(400, 3, 24), synthetic_examples(300, 4, 24), longer)
