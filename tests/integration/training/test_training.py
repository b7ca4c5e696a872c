from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dwise_predict.bundle import PredictorBundle
from dwise_predict.errors import BundleError, ProfileError
from dwise_predict.predictors.errors import TrainingError
from dwise_predict.predictors.fitting import MIN_PROMPTS
from dwise_predict.recipe import PredictorSettings, RefinerSettings
from dwise_predict.training import Evaluation, train_bundle
from tests.runs import bundle_content
from tests.synthetic import CATEGORIES, Examples, synthetic_examples, write_profile

SETTINGS = PredictorSettings(refiner=RefinerSettings(width=64, epochs=30, patience=6))
QUICK = PredictorSettings(refiner=RefinerSettings(width=16, epochs=4, members=2))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Evaluation]:
    folder = tmp_path_factory.mktemp("training")
    profile = write_profile(
        folder / "profile", synthetic_examples(600, 1, 48), synthetic_examples(400, 2, 48)
    )
    return folder, train_bundle(profile, folder / "bundle", SETTINGS, seed=0)


def quick(tmp_path: Path, train: Examples, evaluation: Examples) -> Evaluation:
    profile = write_profile(tmp_path / "profile", train, evaluation)
    return train_bundle(profile, tmp_path / "bundle", QUICK, seed=0)


def test_refinement_orders_unseen_requests_and_admission_barely_does(
    trained: tuple[Path, Evaluation],
) -> None:
    metrics = trained[1].metrics
    assert metrics.refined.spearman > 0.8
    assert metrics.refined.spearman_within > 0.55
    assert metrics.refined.spearman > metrics.admission.spearman + 0.1
    assert metrics.refined.spearman_within > metrics.admission.spearman_within + 0.3


def test_calibration_centres_the_ratio_keeps_ranks_and_does_not_cost_error(
    trained: tuple[Path, Evaluation],
) -> None:
    metrics = trained[1].metrics
    assert abs(metrics.refined.median_ratio - 1) < 0.08
    assert abs(metrics.refined.median_ratio - 1) < abs(metrics.refined_raw.median_ratio - 1)
    assert metrics.refined.mae <= 1.02 * metrics.refined_raw.mae
    assert metrics.refined.spearman == pytest.approx(metrics.refined_raw.spearman, abs=1e-9)


def test_every_category_and_both_multiple_choice_ones_are_held_out(
    trained: tuple[Path, Evaluation],
) -> None:
    metrics = trained[1].metrics
    both = "hard_multiple_choice+multiple_choice"
    assert set(metrics.held_out) == {*CATEGORIES, both}
    assert metrics.held_out_skipped == {}
    held = metrics.held_out[both]
    assert held.n_eval == sum(
        metrics.held_out[name].n_eval for name in ("multiple_choice", "hard_multiple_choice")
    )
    assert held.n_train < metrics.n_train
    assert held.refined.all_in_training == pytest.approx(metrics.refined_raw.spearman)
    assert held.refined.all_held_out > held.admission.all_held_out


def test_survival_metrics_say_that_predictions_help(trained: tuple[Path, Evaluation]) -> None:
    survival = trained[1].metrics.survival
    assert survival.c_index > 0.8
    assert survival.integrated_brier < 0.12
    assert 0 <= survival.d_calibration_p <= 1


def test_predictions_are_totals_of_all_requests_in_profile_order(
    trained: tuple[Path, Evaluation],
) -> None:
    folder, evaluation = trained
    table = evaluation.predictions
    assert table.column_names == [
        "request_id", "category", "split", "rounds", "admission", "refined_raw", "refined",
    ]  # fmt: skip
    assert table.num_rows == 1000
    assert table["request_id"].to_pylist()[:2] == ["train-0", "train-1"]
    unseen = table.filter(np.array(table["split"].to_pylist()) == "eval")
    ratio = np.median(unseen["refined"].to_numpy() / unseen["rounds"].to_numpy())
    assert ratio == pytest.approx(evaluation.metrics.refined.median_ratio)
    bundle, examples = PredictorBundle.load(folder / "bundle"), synthetic_examples(400, 2, 48)
    remaining = bundle.refiner(examples.hidden, examples.prompt_tokens, examples.budget_tokens)
    np.testing.assert_allclose(unseen["refined"].to_numpy(), 1 + remaining.mean(), rtol=1e-5)


def test_the_bundle_holds_the_metrics_and_no_wall_times_in_them(
    trained: tuple[Path, Evaluation],
) -> None:
    folder, evaluation = trained
    bundle = PredictorBundle.load(folder / "bundle")
    assert bundle.metrics == evaluation.metrics
    assert "seconds" not in json.loads((folder / "bundle" / "metrics.json").read_text())
    assert bundle.provenance.seconds.train > 0
    assert bundle.config.fingerprint.model == "acme/dllm-mini"


def test_the_same_profile_and_seed_give_the_same_bytes(tmp_path: Path) -> None:
    train, evaluation = synthetic_examples(120, 1, 8), synthetic_examples(60, 2, 8)
    profile = write_profile(tmp_path / "profile", train, evaluation)
    for name in ("a", "b"):
        train_bundle(profile, tmp_path / name, QUICK, seed=3, command=f"dwise {name}")
    a, b = tmp_path / "a", tmp_path / "b"
    assert bundle_content(a) == bundle_content(b)
    assert "`dwise a`" in (a / "README.md").read_text()
    train_bundle(profile, tmp_path / "c", QUICK, seed=4)
    assert (a / "refiner.safetensors").read_bytes() != (
        tmp_path / "c" / "refiner.safetensors"
    ).read_bytes()


def test_aborted_requests_are_censored_and_not_ranked(tmp_path: Path) -> None:
    evaluation = synthetic_examples(100, 2, 8, abort_share=0.2)
    result = quick(tmp_path, synthetic_examples(200, 1, 8, abort_share=0.2), evaluation)
    assert result.metrics.n_aborted > 20
    assert result.metrics.rounds.max == evaluation.rounds[evaluation.finished].max()


def test_budget_free_bundles_say_so_and_are_not_calibrated(tmp_path: Path) -> None:
    free = QUICK.model_copy(
        update={"refiner": QUICK.refiner.model_copy(update={"duration": "budget_free"})}
    )
    profile = write_profile(
        tmp_path / "profile", synthetic_examples(120, 1, 8), synthetic_examples(60, 2, 8)
    )
    metrics = train_bundle(profile, tmp_path / "bundle", free, seed=0).metrics
    bundle = PredictorBundle.load(tmp_path / "bundle")
    assert bundle.config.refiner.duration == "budget_free"
    assert bundle.config.calibration is None
    assert metrics.refined == metrics.refined_raw


def test_one_category_trains_and_says_why_nothing_is_held_out(tmp_path: Path) -> None:
    train, evaluation = synthetic_examples(60, 1, 8), synthetic_examples(30, 2, 8)
    one = [replace(e, category=np.full(len(e), "chat")) for e in (train, evaluation)]
    metrics = quick(tmp_path, *one).metrics
    assert metrics.held_out == {}
    assert "0 other training prompts" in metrics.held_out_skipped["chat"]
    assert metrics.refined.categories == 1


def test_constant_rounds_train_and_leave_correlations_undefined(tmp_path: Path) -> None:
    train, evaluation = synthetic_examples(60, 1, 8), synthetic_examples(30, 2, 8)
    same = [replace(e, rounds=np.full(len(e), 6)) for e in (train, evaluation)]
    metrics = quick(tmp_path, *same).metrics
    assert metrics.refined.spearman is None
    assert metrics.admission.median_ratio == pytest.approx(1)
    assert metrics.refined.median_ratio == pytest.approx(1, abs=0.05)


def test_requests_done_in_one_round_train(tmp_path: Path) -> None:
    train, evaluation = synthetic_examples(80, 1, 8), synthetic_examples(30, 2, 8)
    some = [replace(e, rounds=np.where(e.rounds < 9, 1, e.rounds)) for e in (train, evaluation)]
    assert quick(tmp_path, *some).metrics.rounds.p10 == 1


def test_a_single_evaluation_request_is_enough(tmp_path: Path) -> None:
    metrics = quick(tmp_path, synthetic_examples(60, 1, 8), synthetic_examples(1, 2, 8)).metrics
    assert metrics.n_eval == 1
    assert metrics.refined.spearman is None
    assert metrics.survival.d_calibration_p is None


def test_two_requests_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=rf"2 distinct.*at least {MIN_PROMPTS}"):
        quick(tmp_path, synthetic_examples(2, 1, 8), synthetic_examples(2, 2, 8))
    assert not (tmp_path / "bundle").exists()


def test_identical_prompts_are_refused(tmp_path: Path) -> None:
    train = synthetic_examples(60, 1, 8)
    with pytest.raises(TrainingError, match="1 distinct training prompts"):
        quick(tmp_path, replace(train, prompt=np.full(60, "a" * 64)), synthetic_examples(9, 2, 8))


def test_prompts_on_both_sides_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="9 prompts are in both splits"):
        quick(tmp_path, synthetic_examples(60, 1, 8), synthetic_examples(60, 1, 8).take(
            np.arange(9)))  # fmt: skip


def test_nothing_to_evaluate_on_is_refused(tmp_path: Path) -> None:
    aborted = replace(synthetic_examples(9, 2, 8), finish_reason=np.full(9, "abort"))
    with pytest.raises(TrainingError, match="no finished evaluation request"):
        quick(tmp_path, synthetic_examples(60, 1, 8), aborted)


def test_a_missing_profile_is_an_error_of_the_profile(tmp_path: Path) -> None:
    with pytest.raises(ProfileError):
        train_bundle(tmp_path / "nothing", tmp_path / "bundle", QUICK, seed=0)


def test_an_unwritable_bundle_is_an_error_of_the_bundle(tmp_path: Path) -> None:
    profile = write_profile(
        tmp_path / "profile", synthetic_examples(40, 1, 8), synthetic_examples(9, 2, 8)
    )
    (tmp_path / "file").write_text("")
    with pytest.raises(BundleError, match="cannot write"):
        train_bundle(profile, tmp_path / "file" / "bundle", QUICK, seed=0)
