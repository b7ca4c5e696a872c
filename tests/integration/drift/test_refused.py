"""Trainings from a profile that are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dwise_predict.pipeline import run_training_from_profile
from dwise_predict.predictors.errors import TrainingError
from tests.integration.drift.conftest import SETTINGS, traffic
from tests.synthetic import synthetic_examples


def test_a_refused_training_leaves_its_place_free(base: Path, tmp_path: Path) -> None:
    few = synthetic_examples(400, 1, 24).take(np.arange(8))
    profile = traffic(tmp_path / "few", few, synthetic_examples(20, 2, 24))
    with pytest.raises(TrainingError):
        run_training_from_profile(profile, tmp_path / "out", SETTINGS, seed=0)
    assert list((tmp_path / "out").iterdir()) == []
    run_training_from_profile(base / "profile", tmp_path / "out", SETTINGS, seed=0)
    assert (tmp_path / "out" / "bundle").is_dir()
