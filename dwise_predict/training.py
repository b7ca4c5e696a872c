"""From a profile folder to a bundle folder: trains, evaluates and writes both predictors.

The same profile, settings and seed give the same bytes on the same machine, apart from
provenance.json, the section of the model card that shows it, and their hashes in config.json.
"""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path

import numpy as np
import pyarrow as pa

import dwise_predict
from dwise_predict.bundle.bundle import PredictorBundle
from dwise_predict.bundle.metrics import Metrics
from dwise_predict.bundle.privacy import public_command
from dwise_predict.bundle.schema import Parent, Provenance, Seconds
from dwise_predict.evaluation.metrics import rank_metrics, rounds_summary, survival_metrics
from dwise_predict.evaluation.predictors import Predictors, fit_predictors, hold_out, predict
from dwise_predict.predictors.errors import TrainingError
from dwise_predict.predictors.examples import Examples
from dwise_predict.predictors.fitting import (
    MIN_PROMPTS,
    check_trainable,
    fit_refiner_calibration,
)
from dwise_predict.profile import Profile, RunInfo, read_profile, token_bins_of
from dwise_predict.profile.median import median_profile
from dwise_predict.progress import SILENT, Progress
from dwise_predict.recipe import PredictorSettings

MIN_TRAIN_REQUESTS = MIN_PROMPTS
"""Fewest training requests (with prompts that differ) that predictors are trained on."""

_PACKAGES = ("dwise-predict", "lightgbm", "numpy", "pyarrow", "torch")


@dataclass(frozen=True)
class Evaluation:
    """What training found out.

    Attributes:
        metrics: the content of metrics.json.
        predictions: one row per request in profile order: request_id, category, split, rounds,
            admission, refined_raw, refined. Predictions are total rounds, so that every column
            compares with ``rounds``; of training rows they are in-sample.
    """

    metrics: Metrics
    predictions: pa.Table


def train_bundle(
    profile_dir: Path,
    out_dir: Path,
    settings: PredictorSettings,
    seed: int,
    progress: Progress = SILENT,
    command: str = "",
    seconds_profile: float | None = None,
    profile_repo: str | None = None,
    repeats: Sequence[Path] = (),
) -> Evaluation:
    """Train both predictors on a profile, evaluate them on its unseen prompts, write a bundle.

    Args:
        profile_dir: finished profile.
        out_dir: bundle folder; written in one step at the end, so that it is complete or absent.
        settings: of both predictors.
        seed: of every random choice.
        progress: told about the stages.
        command: recorded in provenance.json, without local paths, host and user name.
        seconds_profile: recorded there too; None when unknown.
        profile_repo: recorded there too: ``ORG/NAME@commit`` of a profile from the Hub.
        repeats: finished profiles of the same requests, read with ``settings.labels=median``.

    Raises:
        ProfileError: a profile is unfinished or damaged.
        TrainingError: the profile cannot train or evaluate predictors.
        BundleError: the bundle cannot be written.
    """
    profile = read_profile(profile_dir)
    examples = examples_from_profile(profile)
    train, evaluation = sides(profile, settings, repeats)
    ranked = evaluation.take(evaluation.finished)

    started = time.monotonic()
    predictors = _fit(train, settings, seed, progress)
    trained = time.monotonic()
    seen = predict(predictors, ranked)
    held_out, skipped = hold_out(train, ranked, seen, settings, seed, progress)
    metrics = Metrics(
        rounds=rounds_summary(ranked.rounds),
        admission=rank_metrics(seen.admission, ranked),
        refined=rank_metrics(seen.refined, ranked),
        refined_raw=rank_metrics(seen.refined_raw, ranked),
        held_out=held_out,
        held_out_skipped=skipped,
        survival=survival_metrics(predictors.refiner, evaluation, settings.refiner.duration),
        n_train=len(train),
        n_eval=len(evaluation),
        n_aborted=int((~examples.finished).sum()),
    )
    evaluated = time.monotonic()

    provenance = provenance_of(
        profile,
        seed,
        command,
        Seconds(profile=seconds_profile, train=trained - started, evaluate=evaluated - trained),
        profile_repo,
        repeats=1 + len(repeats) if settings.labels == "median" else 1,
    )
    PredictorBundle.create(
        fingerprint=profile.run.fingerprint,
        settings=settings,
        seed=seed,
        admission=predictors.admission,
        refiner=predictors.refiner,
        metrics=metrics,
        provenance=provenance,
    ).save(out_dir)
    return Evaluation(metrics, predictions_table(profile, examples, predictors))


def examples_from_profile(profile: Profile) -> Examples:
    """Columns that predictors need, in the order of the profile's requests."""
    requests = profile.requests

    def integers(name: str) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        return np.asarray(requests[name].to_numpy(), dtype=np.int64)

    return Examples(
        prompt=np.array(requests["prompt_sha256"].to_pylist(), dtype=np.str_),
        category=np.array(requests["category"].to_pylist(), dtype=np.str_),
        words=integers("words"),
        newlines=integers("newlines"),
        prompt_tokens=integers("prompt_tokens"),
        token_bins=token_bins_of(requests),
        budget_tokens=integers("budget_tokens"),
        hidden=profile.hidden.astype(np.float32),
        rounds=integers("rounds"),
        finish_reason=np.array(requests["finish_reason"].to_pylist(), dtype=np.str_),
    )


def sides(
    profile: Profile, settings: PredictorSettings, repeats: Sequence[Path] = ()
) -> tuple[Examples, Examples]:
    """Training and evaluation requests, checked to be enough and disjoint in prompts.

    With ``settings.labels=median`` training requests are the median ones of the profile and its
    ``repeats``; evaluation requests always are the profile's, because a request is served once.

    Raises:
        ProfileError: a repeat is damaged or of other requests.
        TrainingError: the profile cannot train or evaluate predictors.
    """
    split = np.array(profile.requests["split"].to_pylist(), dtype=object)
    unknown = int((~np.isin(split, ["train", "eval"])).sum())
    if unknown:
        raise TrainingError(
            f"{unknown} of {len(split)} profiled requests belong neither to the train nor to the "
            "eval split; profile the workload with a split (dwise train assigns one)"
        )
    examples = labelled = examples_from_profile(profile)
    if settings.labels == "median":
        if not repeats:
            raise TrainingError(
                "predictors.labels=median takes the median of several profiles, but there is one "
                "only: profile with --repeats 3, or leave predictors.labels at first"
            )
        others = [read_profile(folder) for folder in repeats]
        labelled = examples_from_profile(median_profile(profile, others))
    lacks_tokens = any(bins is None for bins in examples.token_bins)
    if settings.admission.features == "extended" and lacks_tokens:
        raise TrainingError(
            "the profile does not hold the token_bins of every request, which "
            "predictors.admission.features=extended needs: it was made by an earlier version or "
            "published without prompts. Profile again, or train with "
            "predictors.admission.features=sizes"
        )
    train, evaluation = labelled.take(split == "train"), examples.take(split == "eval")
    if not evaluation.finished.any():
        raise TrainingError(
            "the profile has no finished evaluation request, so nothing could be said about the "
            "predictors; raise workload.eval or workload.eval_fraction"
        )
    shared = np.intersect1d(train.prompt, evaluation.prompt)
    if len(shared):
        raise TrainingError(
            f"{len(shared)} prompts are in both splits (the first: sha256 {shared[0]}); "
            "evaluation prompts must not be trained on"
        )
    check_trainable(train, settings.refiner)
    return train, evaluation


def _fit(train: Examples, settings: PredictorSettings, seed: int, progress: Progress) -> Predictors:
    predictors = fit_predictors(train, settings, seed, progress)
    calibration = fit_refiner_calibration(train, settings.refiner, seed, progress)
    return Predictors(predictors.admission, predictors.refiner.calibrated(calibration))


def predictions_table(profile: Profile, examples: Examples, predictors: Predictors) -> pa.Table:
    """What :class:`Evaluation` says of ``predictions``."""
    predicted = predict(predictors, examples)
    table = profile.requests.select(["request_id", "category", "split", "rounds"])
    for name in ("admission", "refined_raw", "refined"):
        table = table.append_column(name, pa.array(getattr(predicted, name)))
    return table


def profile_sha256(run: RunInfo) -> str:
    """What identifies a profile in a bundle's provenance."""
    return hashlib.sha256(json.dumps(run.files, sort_keys=True).encode()).hexdigest()


def provenance_of(
    profile: Profile,
    seed: int,
    command: str,
    seconds: Seconds,
    profile_repo: str | None,
    repeats: int = 1,
    parent: Parent | None = None,
) -> Provenance:
    """The record of a training that ends now."""
    run = profile.run
    return Provenance(
        command=public_command(command),
        created_at=datetime.now(timezone.utc),
        seed=seed,
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}",
        packages={name: metadata.version(name) for name in _PACKAGES},
        git_revision=_git_revision(),
        profile_sha256=profile_sha256(run),
        profile_repo=profile_repo,
        workload=run.workload.name,
        workload_sha256=run.workload.sha256,
        datasets=tuple(sorted(set(profile.requests["dataset"].to_pylist()))),
        repeats=repeats,
        parent=parent,
        seconds=seconds,
    )


def _git_revision() -> str | None:
    """Commit of the library's own repository; None when it is installed without one."""
    root = Path(dwise_predict.__file__).parent.parent
    if not (root / ".git").exists():
        return None
    try:
        found = subprocess.run(
            ["git", "-C", str(root), "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None  # no git here, or not readable by this user: the version still identifies it
    return found.stdout.strip()
