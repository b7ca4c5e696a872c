"""Bundles on later traffic: which requests count, what is said, and what the command does."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dwise_predict.bundle import PredictorBundle
from dwise_predict.errors import IncompatibleBundleError
from dwise_predict.evaluate import BundleEvaluation, evaluate_bundle
from dwise_predict.lineage import lineage_of
from dwise_predict.predictors.errors import TrainingError
from dwise_predict.profile import read_profile
from tests.integration.drift.conftest import traffic
from tests.runs import dwise
from tests.synthetic import synthetic_examples


def evaluated(bundle: Path, profile: Path, *given: Path) -> BundleEvaluation:
    return evaluate_bundle(
        PredictorBundle.load(bundle),
        read_profile(profile),
        str(profile),
        [read_profile(folder) for folder in given],
    )


def test_the_number_of_threads_changes_no_figure(base: Path, same: Path) -> None:
    threads = torch.get_num_threads()
    found = []
    for count in (1, 3, 4, 7):
        torch.set_num_threads(count)
        try:
            found.append(evaluated(base / "bundle", same))
            assert torch.get_num_threads() == count
        finally:
            torch.set_num_threads(threads)
    assert all(evaluation == found[0] for evaluation in found)


def test_its_own_profile_gives_its_own_metrics(base: Path) -> None:
    """Training requests are left out, so that what is left is what training evaluated on."""
    found = evaluated(base / "bundle", base / "profile")
    assert found.unseen.left_out == 400
    assert found.unseen.unknown_profiles == ()
    own = found.own
    assert (found.drift.admission, found.drift.refined) == (own.admission, own.refined)
    assert found.drift.survival == own.survival
    assert all(figure.change == 0 for figure in found.drift.figures)
    assert found.drift.verdict.advice in ("keep", "unclear")


def test_traffic_of_the_same_kind_gives_no_alarm_and_longer_traffic_does(
    base: Path, same: Path, drifted: Path
) -> None:
    found = evaluated(base / "bundle", same)
    assert found.drift.requests == 700
    assert found.drift.verdict.advice in ("keep", "unclear")
    changed = evaluated(base / "bundle", drifted)
    assert changed.drift.verdict.advice in ("recalibrate", "refresh")
    assert changed.drift.refined.median_ratio < 0.8 * found.drift.refined.median_ratio


def test_prompts_that_were_trained_on_are_left_out_wherever_they_come_from(
    base: Path, tmp_path: Path
) -> None:
    """Half of the later requests have prompts of the bundle's training split."""
    old, new = synthetic_examples(400, 1, 24), synthetic_examples(100, 5, 24)
    mixed = replace(new, prompt=np.concatenate([old.prompt[:50], new.prompt[50:]]))
    profile = traffic(tmp_path / "mixed", mixed, synthetic_examples(80, 6, 24))
    assert evaluated(base / "bundle", profile).unseen.left_out == 50
    away = tmp_path / "away"
    PredictorBundle.load(base / "bundle").save(away)
    unknown = evaluated(away, profile)
    assert unknown.unseen.left_out == 0
    assert len(unknown.unseen.unknown_profiles) == 1
    told = evaluated(away, profile, base / "profile")
    assert told.unseen == evaluated(base / "bundle", profile).unseen


def test_the_same_workload_profiled_again_has_the_same_training_prompts(
    base: Path, tmp_path: Path
) -> None:
    away = tmp_path / "away"
    PredictorBundle.load(base / "bundle").save(away)
    again = traffic(
        tmp_path / "again",
        replace(old := synthetic_examples(400, 1, 24), rounds=old.rounds + 1),
        synthetic_examples(200, 2, 24),
        workload="profiled",
    )
    found = evaluated(away, again)
    assert (found.unseen.left_out, found.unseen.unknown_profiles) == (400, ())


def test_live_traffic_and_workloads_say_nothing_of_each_others_prompts(
    base: Path, tmp_path: Path
) -> None:
    live = traffic(tmp_path / "live", synthetic_examples(60, 7, 24), synthetic_examples(60, 8, 24))
    path = live / "run.json"
    path.write_text(path.read_text().replace('"synthetic"', '"live"'))
    lineage = lineage_of(PredictorBundle.load(base / "bundle"), read_profile(live))
    assert lineage.prompts == frozenset()
    assert len(lineage.unknown) == 1


def test_nothing_left_and_other_models_are_refused(base: Path, tmp_path: Path) -> None:
    trained = synthetic_examples(400, 1, 24).take(np.arange(60))
    only = traffic(tmp_path / "only", trained, trained.take(np.arange(5)))
    with pytest.raises(TrainingError, match="nothing could be said"):
        evaluated(base / "bundle", only)
    path = only / "run.json"
    path.write_text(path.read_text().replace("acme/dllm-mini", "acme/other"))
    with pytest.raises(IncompatibleBundleError, match=r"acme/other"):
        evaluated(base / "bundle", only)


@pytest.mark.parametrize(
    ("output", "told"), [(".", "is a directory"), ("absent/drift.json", "does not exist")]
)
def test_where_the_verdict_cannot_go_is_said_before_any_work(
    tmp_path: Path, output: str, told: str
) -> None:
    flags = ("--bundle", "absent", "--profile", "absent")
    refused = dwise("evaluate", *flags, "--output", output, cwd=tmp_path)
    assert refused.returncode == 2
    assert "--output" in refused.stderr and told in refused.stderr


def test_the_command_says_what_to_do_by_its_status_too(
    base: Path, same: Path, drifted: Path, tmp_path: Path
) -> None:
    output = tmp_path / "drift.json"
    flags = ("evaluate", "--bundle", base / "bundle", "--profile")
    both = []
    for hashes in ("0", "4"):  # two orders of the same set of categories
        fine = dwise(
            *(*flags, same, "--output", output),
            cwd=tmp_path,
            variables={"PYTHONHASHSEED": hashes},
        )
        both.append(output.read_bytes())
    assert both[0] == both[1]
    assert fine.returncode == 0, fine.stderr
    assert "watched figures" in fine.stdout and "verdict" in fine.stdout
    assert "…" not in fine.stdout  # tables are not cut where there is no terminal
    written = BundleEvaluation.model_validate_json(output.read_bytes())
    assert written.drift == evaluated(base / "bundle", same).drift
    assert f"{written.drift.refined.spearman:.3f}" in fine.stdout
    changed = dwise(*flags, drifted, cwd=tmp_path)
    assert changed.returncode == 1
    assert "--init-from" in changed.stdout
    refused = dwise("evaluate", "--bundle", "tiny", "--profile", same, cwd=tmp_path)
    assert refused.returncode == 2
    assert "the bundle does not fit" in refused.stderr


def test_warnings_of_the_fingerprint_are_shown(base: Path, same: Path, tmp_path: Path) -> None:
    newer = tmp_path / "newer"
    newer.mkdir()
    for path in same.iterdir():
        (newer / path.name).write_bytes(path.read_bytes())
    run = json.loads((newer / "run.json").read_text())
    run["fingerprint"]["engine_version"] = "9"
    (newer / "run.json").write_text(json.dumps(run))
    found = dwise("evaluate", "--bundle", base / "bundle", "--profile", newer, cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    assert "warning   the engine's version is 9" in found.stdout
