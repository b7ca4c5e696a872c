from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dwise_predict.profile import Profile, read_profile
from dwise_predict.recipe import PredictorSettings, RefinerSettings
from dwise_predict.training import train_bundle
from tests.synthetic import synthetic_examples, write_profile

TRAIN, EVAL = 120, 60


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder as ``dwise train`` leaves it, of a synthetic profile."""
    folder = tmp_path_factory.mktemp("runs") / "made-up"
    folder.mkdir()
    profile = write_profile(
        folder / "profile", synthetic_examples(TRAIN, 1, 16), synthetic_examples(EVAL, 2, 16)
    )
    settings = PredictorSettings(refiner=RefinerSettings(width=16, epochs=4, members=2))
    evaluation = train_bundle(profile, folder / "bundle", settings, seed=0)
    pq.write_table(evaluation.predictions, folder / "predictions.parquet")
    return folder


@pytest.fixture(scope="session")
def profile(run_folder: Path) -> Profile:
    return read_profile(run_folder / "profile")
