"""Trainings from profiles that are refused, or lack what is not needed."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from dwise_predict.pipeline import run_training_from_profile
from dwise_predict.predictors.errors import TrainingError
from dwise_predict.profile.records import ROUNDS_FILE
from dwise_predict.tables import read_table
from tests.integration.drift.conftest import SETTINGS, traffic
from tests.synthetic import replace_table, synthetic_examples


def test_a_refused_training_leaves_its_place_free(base: Path, tmp_path: Path) -> None:
    few = synthetic_examples(400, 1, 24).take(np.arange(8))
    profile = traffic(tmp_path / "few", few, synthetic_examples(20, 2, 24))
    with pytest.raises(TrainingError):
        run_training_from_profile(profile, tmp_path / "out", SETTINGS, seed=0)
    assert list((tmp_path / "out").iterdir()) == []
    run_training_from_profile(base / "profile", tmp_path / "out", SETTINGS, seed=0)
    assert (tmp_path / "out" / "bundle").is_dir()


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_rounds_are_not_needed(base: Path, tmp_path: Path) -> None:
    """Merged recordings may have none: the report then says nothing of rounds."""
    shutil.copytree(base / "profile", tmp_path / "profile")
    rounds = read_table(tmp_path / "profile" / ROUNDS_FILE)
    replace_table(tmp_path / "profile", ROUNDS_FILE, rounds.slice(0, 0))
    reports = []
    for profile in (base / "profile", tmp_path / "profile"):
        out = tmp_path / f"run-{len(reports)}"
        run_training_from_profile(profile, out, SETTINGS, seed=0)
        reports.append((out / "report.html").read_text())
    assert ["Round composition" in report for report in reports] == [True, False]
