"""Refreshed bundles: what changes, what stays, what is recorded, what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dwise_predict.bundle import PredictorBundle
from dwise_predict.errors import IncompatibleBundleError
from dwise_predict.evaluate import judge_bundle
from dwise_predict.evaluation.changes import Refresh, read_refresh
from dwise_predict.evaluation.judged import FIGURES
from dwise_predict.predictors.errors import TrainingError
from dwise_predict.profile import read_profile
from dwise_predict.recipe import PredictorSettings
from dwise_predict.refresh import Origin, refresh_bundle
from dwise_predict.training import Evaluation, profile_sha256, sides, train_bundle
from tests.integration.drift.conftest import SETTINGS, traffic
from tests.runs import bundle_content, dwise
from tests.synthetic import synthetic_examples


def refreshed(
    bundle: Path, profile: Path, out: Path, calibration_only: bool = False, **changes: object
) -> tuple[Evaluation, Refresh]:
    parent = PredictorBundle.load(bundle)
    settings = parent.config.settings.model_copy(update=changes)
    return refresh_bundle(profile, out, Origin(parent, calibration_only), settings, seed=0)


def by_figure(record: Refresh) -> dict[str, object]:
    return {change.figure: change for change in record.changes}


def test_weights_learn_the_new_scale_and_say_where_they_come_from(
    base: Path, drifted: Path, tmp_path: Path
) -> None:
    evaluation, record = refreshed(base / "bundle", drifted, tmp_path / "new")
    changes = by_figure(record)
    for name in ("refined ratio", "admission ratio"):
        assert changes[name].before < 0.8
        assert changes[name].low > 0
        assert changes[name].after == pytest.approx(1, abs=0.2)
    assert changes["refined error"].low > 0
    assert changes["refined rank overall"].gain > -0.02
    parent, new = PredictorBundle.load(base / "bundle"), PredictorBundle.load(tmp_path / "new")
    assert new.verify() == []
    assert new.metrics == evaluation.metrics
    assert np.array_equal(new.refiner.normalisation.centre, parent.refiner.normalisation.centre)
    told = new.provenance.parent
    assert (told.source, told.digest, told.refresh) == ("run", parent.config.digest, "weights")
    assert told.trained_on == (profile_sha256(read_profile(base / "profile").run),)
    assert "refreshed from | run" in new.card
    assert record.unseen.unknown_profiles == ()
    assert set(new.metrics.held_out_skipped) == set(new.metrics.refined.by_category)


def test_calibration_alone_moves_the_scale_and_no_rank(
    base: Path, drifted: Path, tmp_path: Path
) -> None:
    _, record = refreshed(base / "bundle", drifted, tmp_path / "new", calibration_only=True)
    changes = by_figure(record)
    for name in ("refined ratio", "admission ratio"):
        assert changes[name].low > 0
        assert changes[name].after == pytest.approx(1, abs=0.2)
    for name in ("refined rank overall", "admission rank overall"):
        assert changes[name].before == pytest.approx(changes[name].after, abs=1e-9)
    parent, new = PredictorBundle.load(base / "bundle"), PredictorBundle.load(tmp_path / "new")
    assert new.files["refiner.safetensors"] == parent.files["refiner.safetensors"]
    assert new.config.calibration != parent.config.calibration
    train, _ = sides(read_profile(drifted), SETTINGS)
    told = parent.admission.rounds_batch(train.words, train.newlines, train.prompt_tokens)
    assert record.admission_factor == pytest.approx(np.median(train.rounds / told), rel=1e-6)
    ratio = new.admission.rounds(words=31, newlines=2, prompt_tokens=57) / parent.admission.rounds(
        words=31, newlines=2, prompt_tokens=57
    )
    assert ratio == pytest.approx(record.admission_factor)
    assert new.provenance.parent.refresh == "calibration"
    assert new.verify() == []


def test_admission_is_not_scaled_by_what_may_be_chance(base: Path, tmp_path: Path) -> None:
    few = traffic(tmp_path / "few", synthetic_examples(40, 3, 24), synthetic_examples(60, 4, 24))
    _, record = refreshed(base / "bundle", few, tmp_path / "new", calibration_only=True)
    assert record.admission_factor == 1
    parent, new = PredictorBundle.load(base / "bundle"), PredictorBundle.load(tmp_path / "new")
    assert new.files["admission.txt"] == parent.files["admission.txt"]


def test_before_and_after_are_those_of_the_two_bundles(
    base: Path, drifted: Path, tmp_path: Path
) -> None:
    _, record = refreshed(base / "bundle", drifted, tmp_path / "new", calibration_only=True)
    _, evaluation = sides(read_profile(drifted), SETTINGS)
    rows = np.arange(len(evaluation))
    for which, folder in (("before", base / "bundle"), ("after", tmp_path / "new")):
        figures = judge_bundle(PredictorBundle.load(folder), evaluation).figures(rows, [])
        told = dict(zip(FIGURES, figures, strict=True))
        for change in record.changes:
            if "inside" not in change.figure:
                assert getattr(change, which) == pytest.approx(told[change.figure]), change.figure


def test_a_refreshed_bundle_can_be_refreshed_and_remembers_all_its_profiles(
    base: Path, same: Path, drifted: Path, tmp_path: Path
) -> None:
    refreshed(base / "bundle", drifted, tmp_path / "first", calibration_only=True)
    _, record = refreshed(tmp_path / "first", same, tmp_path / "second", calibration_only=True)
    hashes = [profile_sha256(read_profile(p).run) for p in (drifted, base / "profile")]
    assert list(record.parent.trained_on) == hashes
    # drifted has the prompts of same, but nobody named it; base's profile is not beside the first.
    assert set(record.unseen.unknown_profiles) == set(hashes)


def test_evaluation_prompts_that_the_bundle_was_trained_on_do_not_count(
    base: Path, tmp_path: Path
) -> None:
    old, later = synthetic_examples(400, 1, 24), synthetic_examples(120, 4, 24)
    mixed = replace(later, prompt=np.concatenate([old.prompt[:40], later.prompt[40:]]))
    profile = traffic(tmp_path / "mixed", synthetic_examples(200, 3, 24), mixed)
    evaluation, record = refreshed(base / "bundle", profile, tmp_path / "new", True)
    assert record.unseen.left_out == 40
    assert evaluation.metrics.n_eval == 80


def test_the_same_refresh_gives_the_same_bytes(base: Path, same: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        refreshed(base / "bundle", same, tmp_path / name)
    assert bundle_content(tmp_path / "a") == bundle_content(tmp_path / "b")


def test_what_cannot_be_refreshed_is_refused(base: Path, same: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"predictors\.refiner\.width=64 cannot be had"):
        refreshed(
            base / "bundle",
            same,
            tmp_path / "new",
            refiner=SETTINGS.refiner.model_copy(update={"width": 64}),
        )
    with pytest.raises(TrainingError, match="train anew without --init-from"):
        refreshed(base / "bundle", base / "profile", tmp_path / "new")
    other = traffic(
        tmp_path / "other", synthetic_examples(60, 8, 24), synthetic_examples(30, 9, 24)
    )
    path = other / "run.json"
    path.write_text(path.read_text().replace("acme/dllm-mini", "acme/other"))
    with pytest.raises(IncompatibleBundleError):
        refreshed(base / "bundle", other, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_budget_free_bundles_have_no_calibration_to_refit(same: Path, tmp_path: Path) -> None:
    free = SETTINGS.refiner.model_copy(update={"duration": "budget_free"})
    profile = traffic(
        tmp_path / "free", synthetic_examples(120, 1, 24), synthetic_examples(60, 2, 24)
    )
    train_bundle(profile, tmp_path / "bundle", PredictorSettings(refiner=free), seed=0)
    with pytest.raises(TrainingError, match="no calibration to refit"):
        refreshed(tmp_path / "bundle", same, tmp_path / "new", calibration_only=True)
    refreshed(tmp_path / "bundle", same, tmp_path / "new")
    assert PredictorBundle.load(tmp_path / "new").config.calibration is None


def test_the_command_line(base: Path, drifted: Path, tmp_path: Path) -> None:
    flags = ("train", "--profile", drifted, "--init-from", base / "bundle")
    done = dwise(*flags, "--calibration-only", "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    record = read_refresh(tmp_path / "run" / "refresh.json")
    assert f"calibration of run in {record.seconds:.1f} s" in done.stdout
    change = by_figure(record)["refined ratio"]
    assert f"{change.before:.3f}" in done.stdout and f"{change.after:.3f}" in done.stdout
    assert "Before and after the refresh" in (tmp_path / "run" / "report.html").read_text()
    again = dwise("report", "run", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    provenance = PredictorBundle.load(tmp_path / "run" / "bundle").provenance
    assert "--calibration-only" in provenance.command
    evaluated = dwise("evaluate", "--bundle", "run/bundle", "--profile", drifted, cwd=tmp_path)
    assert "300 requests" in evaluated.stdout


@pytest.mark.parametrize(
    ("flags", "finding"),
    [
        (("--model", "tiny", "--init-from", "tiny"), "--init-from needs --profile"),
        (("--profile", "x", "--calibration-only"), "--calibration-only needs --init-from"),
        (("--profile", "x", "--trained-on", "y"), "--trained-on needs --init-from"),
        (("--profile", "x", "--init-from", "tiny", "--model", "tiny"), "--model does not go with"),
        (("--profile", "x", "--repeats", "3"), "--repeats does not go with --profile"),
    ],
)
def test_flags_that_do_not_go_together(
    flags: tuple[str, ...], finding: str, tmp_path: Path
) -> None:
    refused = dwise("train", *flags, cwd=tmp_path)
    assert refused.returncode == 2
    assert finding in refused.stderr
