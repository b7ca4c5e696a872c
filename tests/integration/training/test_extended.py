"""Admission features ``extended``, from a profile to predictions of a loaded bundle."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from dwise_predict.bundle import PredictorBundle
from dwise_predict.bundle.schema import config_bytes
from dwise_predict.errors import BundleError, SimulationError
from dwise_predict.predictors.errors import TrainingError
from dwise_predict.profile import read_profile, token_bins_of
from dwise_predict.profile.encoding import digest, json_bytes, table_bytes
from dwise_predict.recipe import AdmissionSettings, PredictorSettings, RefinerSettings
from dwise_predict.simulation.learned import bundle_estimates
from dwise_predict.simulation.sources import profile_source
from dwise_predict.training import Evaluation, train_bundle
from tests import corruption
from tests.synthetic import synthetic_examples, with_tokens, write_profile

REFINER = RefinerSettings(width=16, epochs=4, members=2)
SIZES = PredictorSettings(refiner=REFINER)
EXTENDED = PredictorSettings(admission=AdmissionSettings(features="extended"), refiner=REFINER)
TRAIN = with_tokens(synthetic_examples(400, 1, 8), 1)
UNSEEN = with_tokens(synthetic_examples(200, 2, 8), 2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("extended")
    write_profile(folder / "profile", TRAIN, UNSEEN)
    return folder


@pytest.fixture(scope="module")
def extended(folder: Path) -> Evaluation:
    return train_bundle(folder / "profile", folder / "bundle", EXTENDED, seed=0)


def test_tokens_order_requests_that_sizes_cannot(folder: Path, extended: Evaluation) -> None:
    sizes = train_bundle(folder / "profile", folder / "sizes", SIZES, seed=0)
    ours, theirs = extended.metrics, sizes.metrics
    assert ours.admission.spearman_within > theirs.admission.spearman_within + 0.3
    assert ours.refined == theirs.refined
    assert ours.held_out.keys() == theirs.held_out.keys() != set()
    for row in ours.held_out.values():
        assert row.admission.held_out > 0.5


def test_the_loaded_bundle_predicts_and_is_verified(folder: Path, extended: Evaluation) -> None:
    bundle = PredictorBundle.load(folder / "bundle")
    assert bundle.config.format_version == "1.3"
    assert bundle.config.admission.features[3:] == ("token_counts_1024",)
    assert bundle.admission.features == "extended"
    assert bundle.verify() == []
    assert "token_ids=prompt_ids" in bundle.card
    rounds = bundle.admission.rounds_batch(
        UNSEEN.words, UNSEEN.newlines, UNSEEN.prompt_tokens, UNSEEN.token_bins.tolist()
    )
    predicted = extended.predictions["admission"].to_numpy()[len(TRAIN) :]
    np.testing.assert_array_equal(rounds, predicted)


def test_smoke_predictions_notice_tokens_counted_otherwise(
    folder: Path, extended: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = PredictorBundle.load(folder / "bundle")
    monkeypatch.setattr("dwise_predict.predictors.features.COUNTED", 16)
    assert any(line.startswith("admission: ") for line in bundle.verify())


def test_features_that_this_version_does_not_know_are_refused(
    folder: Path, extended: Evaluation, tmp_path: Path
) -> None:
    content = PredictorBundle.load(folder / "bundle").config.model_dump(mode="json")
    content["admission"]["features"][3] = "token_counts_4096"
    for path in (folder / "bundle").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "config.json").write_bytes(config_bytes(content))
    corruption.rehash(tmp_path)
    with pytest.raises(BundleError, match=r"expects the features .*token_counts_4096.* or "):
        PredictorBundle.load(tmp_path)


def test_simulations_use_the_profiled_tokens(folder: Path, extended: Evaluation) -> None:
    profile = read_profile(folder / "profile")
    bundle = PredictorBundle.load(folder / "bundle")
    told = bundle_estimates(bundle, profile_source(profile), curves=False)
    predicted = extended.predictions["admission"].to_numpy()[len(TRAIN) :]
    np.testing.assert_array_equal(told.admission, predicted)
    without = write_profile(folder / "bare", TRAIN, replace(UNSEEN, token_bins=np.full(200, None)))
    with pytest.raises(SimulationError, match="does not hold the token_bins of every request"):
        bundle_estimates(bundle, profile_source(read_profile(without)), curves=False)


def test_a_profile_without_tokens_trains_sizes_only(tmp_path: Path) -> None:
    some = TRAIN.token_bins.copy()
    some[7] = None
    profile = write_profile(tmp_path / "profile", replace(TRAIN, token_bins=some), UNSEEN)
    with pytest.raises(TrainingError, match="does not hold the token_bins of every request"):
        train_bundle(profile, tmp_path / "bundle", EXTENDED, seed=0)
    assert not (tmp_path / "bundle").exists()
    train_bundle(profile, tmp_path / "bundle", SIZES, seed=0)


def test_profiles_of_earlier_versions_lack_the_column(tmp_path: Path) -> None:
    folder = write_profile(tmp_path / "profile", TRAIN, UNSEEN)
    path, run = folder / "requests.parquet", read_profile(folder).run
    requests = read_profile(folder).requests
    path.write_bytes(table_bytes(requests.drop_columns(["token_bins"])))
    hashes = run.files | {path.name: digest(path.read_bytes())}
    (folder / "run.json").write_bytes(json_bytes(run.model_copy(update={"files": hashes})))
    assert "token_bins" not in pq.read_schema(path).names
    old = read_profile(folder)
    assert old.requests.schema.equals(requests.schema)
    assert set(token_bins_of(old.requests)) == {None}
    with pytest.raises(TrainingError, match="made by an earlier version"):
        train_bundle(folder, tmp_path / "bundle", EXTENDED, seed=0)
