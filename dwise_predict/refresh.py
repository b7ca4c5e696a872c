"""Refreshing a bundle from a profile of new requests.

**Weights.** Both predictors go on from the bundle's, on the new requests alone: whoever has a
bundle need not have the profile it was trained on. The refiner's networks start from the bundle's
weights with its normalisation, so that what they learned stays meaningful; the admission predictor
gets trees that correct the ones it has. Both stop where held-out prompts stop getting better, at
the very start if need be, so that too few requests leave the predictors as they are instead of
spoiling them. The calibration map is fitted again, on predictions for prompts that the refreshed
networks of the other folds did not see.

**Calibration.** The networks and trees stay. The isotonic map is fitted again on the bundle's own
predictions for new training requests, which are out of sample because nothing was trained on them;
admission estimates are multiplied by the factor that makes their median ratio 1 there, if its 95%
interval leaves 1 out.

Both are judged on evaluation requests with prompts that neither the bundle nor the refresh saw,
next to the bundle they started from.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from dwise_predict.bundle import Metrics, PredictorBundle
from dwise_predict.bundle.schema import Parent, Seconds
from dwise_predict.evaluate import fresh_examples, judge_bundle
from dwise_predict.evaluation.bootstrap import NORMAL_95, bootstrap, standard_errors
from dwise_predict.evaluation.changes import Refresh, Unseen, changes
from dwise_predict.evaluation.judged import Judged, judge
from dwise_predict.evaluation.metrics import rounds_summary
from dwise_predict.evaluation.predictors import Predictors
from dwise_predict.lineage import Lineage, lineage_of, trained_on
from dwise_predict.predictors.admission import (
    AdmissionPredictor,
    continue_admission,
    scaled_admission,
)
from dwise_predict.predictors.calibration import fit_calibration
from dwise_predict.predictors.errors import TrainingError
from dwise_predict.predictors.examples import Examples
from dwise_predict.predictors.features import feature_matrix
from dwise_predict.predictors.fitting import (
    check_trainable,
    expected_remaining,
    fit_refiner,
    fit_refiner_calibration,
)
from dwise_predict.profile import Profile, read_profile
from dwise_predict.progress import SILENT, Progress
from dwise_predict.recipe import PredictorSettings
from dwise_predict.training import (
    Evaluation,
    examples_from_profile,
    predictions_table,
    provenance_of,
    sides,
)

_SHAPE = ("width", "layers", "members", "hazard_knots", "duration")
"""Keys of ``predictors.refiner`` that a refresh cannot change."""
_NOT_HELD_OUT = "the bundle it was refreshed from may have been trained on it"


@dataclass(frozen=True)
class Origin:
    """What to refresh, and how.

    Attributes:
        bundle: to start from.
        calibration_only: leave networks and trees as they are.
        given: profiles that a person says the bundle was trained on.
    """

    bundle: PredictorBundle
    calibration_only: bool = False
    given: tuple[Profile, ...] = ()


def check_settings(parent: PredictorBundle, settings: PredictorSettings) -> None:
    """Raise TrainingError where ``settings`` want predictors of another shape than the bundle's."""
    own = parent.config.settings
    pairs = [("admission.features", own.admission.features, settings.admission.features)]
    pairs += [
        (f"refiner.{name}", getattr(own.refiner, name), getattr(settings.refiner, name))
        for name in _SHAPE
    ]
    for name, before, after in pairs:
        if before != after:
            raise TrainingError(
                f"predictors.{name}={after} cannot be had by refreshing a bundle with {before}: "
                "leave it out, or train anew without --init-from"
            )


def refresh_bundle(
    profile_dir: Path,
    out_dir: Path,
    origin: Origin,
    settings: PredictorSettings,
    seed: int,
    progress: Progress = SILENT,
    command: str = "",
    seconds_profile: float | None = None,
    profile_repo: str | None = None,
    repeats: Sequence[Path] = (),
) -> tuple[Evaluation, Refresh]:
    """Refresh a bundle from a profile and write the new one; see the module for what that means.

    Args:
        profile_dir: finished profile of new requests, with a split.
        out_dir: bundle folder; written in one step at the end.
        origin: what to refresh.
        settings: of the training; of the shape that the bundle has.
        seed: of every random choice.
        progress: told about the stages.
        command: recorded in provenance.json, as by :func:`~dwise_predict.training.train_bundle`.
        seconds_profile: likewise.
        profile_repo: likewise.
        repeats: as there.

    Raises:
        IncompatibleBundleError: the bundle's predictions mean nothing for what was profiled.
        ProfileError: a profile is unfinished or damaged.
        TrainingError: the profile cannot refresh or evaluate the bundle.
        BundleError: the bundle cannot be written.
    """
    parent = origin.bundle
    check_settings(parent, settings)
    profile = read_profile(profile_dir)
    parent.require(profile.run.fingerprint)
    lineage = lineage_of(parent, profile, origin.given)
    train, held_out = sides(profile, settings, repeats)
    evaluation = fresh_examples(held_out, lineage)

    started = time.monotonic()
    if origin.calibration_only:
        predictors, factor = _recalibrated(parent, train, lineage)
    else:
        predictors, factor = _continued(parent, train, lineage, settings, seed, progress), 1.0
    fitted = time.monotonic()
    before = judge_bundle(parent, evaluation)
    after = judge(predictors, evaluation, settings.refiner.duration)
    metrics = _metrics(train, after)
    kind: Literal["weights", "calibration"] = (
        "calibration" if origin.calibration_only else "weights"
    )
    record = Refresh(
        parent=Parent(
            source=_name_of(parent),
            digest=parent.config.digest,
            refresh=kind,
            trained_on=trained_on(parent),
        ),
        unseen=Unseen(left_out=len(held_out) - len(evaluation), unknown_profiles=lineage.unknown),
        added_trees=predictors.admission.size()[0] - parent.admission.size()[0],
        admission_factor=factor,
        seconds=fitted - started,
        changes=changes(before, after),
    )
    evaluated = time.monotonic()
    provenance = provenance_of(
        profile,
        seed,
        command,
        Seconds(profile=seconds_profile, train=fitted - started, evaluate=evaluated - fitted),
        profile_repo,
        repeats=1 + len(repeats) if settings.labels == "median" else 1,
        parent=record.parent,
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
    table = predictions_table(profile, examples_from_profile(profile), predictors)
    return Evaluation(metrics, table), record


def _continued(
    parent: PredictorBundle,
    train: Examples,
    lineage: Lineage,
    settings: PredictorSettings,
    seed: int,
    progress: Progress,
) -> Predictors:
    known = train.take(train.finished)
    tokens = None if settings.admission.features == "sizes" else known.token_bins.tolist()
    admission = continue_admission(
        parent.admission,
        feature_matrix(known.words, known.newlines, known.prompt_tokens, tokens),
        known.rounds,
        known.prompt,
        settings.admission,
        seed,
    )
    unseen = _unseen(train, lineage, settings)
    refiner = fit_refiner(train, settings.refiner, seed, progress, parent.refiner)
    calibration = fit_refiner_calibration(unseen, settings.refiner, seed, progress, parent.refiner)
    return Predictors(admission, refiner.calibrated(calibration))


def _recalibrated(
    parent: PredictorBundle, train: Examples, lineage: Lineage
) -> tuple[Predictors, float]:
    """The bundle's predictors on the scale of the new requests, and admission's factor."""
    if parent.config.calibration is None:
        raise TrainingError(
            "the bundle has no calibration to refit: its durations are budget_free, whose "
            "estimates are expectations. Leave out --calibration-only"
        )
    unseen = _unseen(train, lineage, parent.config.settings)
    known = unseen.take(unseen.finished)
    more = known.take(known.durations > 0)
    calibration = fit_calibration(expected_remaining(parent.refiner, more), more.durations)
    factor = _admission_factor(parent.admission, known)
    admission = parent.admission if factor == 1 else scaled_admission(parent.admission, factor)
    return Predictors(admission, parent.refiner.calibrated(calibration)), factor


def _admission_factor(admission: AdmissionPredictor, known: Examples) -> float:
    """The median of actual / predicted, or 1 where its 95% interval holds 1."""
    predicted = admission.rounds_batch(
        known.words, known.newlines, known.prompt_tokens, known.token_bins.tolist()
    )
    ratios = np.log(known.rounds / predicted)
    drawn = bootstrap(lambda rows: np.array([np.median(ratios[rows])]), known.prompt)
    half = NORMAL_95 * float(standard_errors(drawn)[0])
    middle = float(np.median(ratios))
    return math.exp(middle) if abs(middle) > half else 1.0


def _unseen(train: Examples, lineage: Lineage, settings: PredictorSettings) -> Examples:
    """Training requests with prompts that the bundle is not known to be fitted on."""
    unseen = train.take(lineage.fresh(train.prompt))
    if len(unseen) < len(train):
        try:
            check_trainable(unseen, settings.refiner)
        except TrainingError as error:
            raise TrainingError(
                f"the bundle was fitted on the prompts of {len(train) - len(unseen)} of "
                f"{len(train)} training requests already, so that predictions for them say nothing "
                f"of new ones, and the others are too few. Profile other prompts, or train anew "
                f"without --init-from ({error})"
            ) from error
    return unseen


def _metrics(train: Examples, after: Judged) -> Metrics:
    evaluation = after.examples
    ranks = after.ranks()
    admission, refined, refined_raw = (ranks[n] for n in ("admission", "refined", "refined_raw"))
    assert admission is not None and refined is not None and refined_raw is not None
    return Metrics(
        rounds=rounds_summary(evaluation.rounds[evaluation.finished]),
        admission=admission,
        refined=refined,
        refined_raw=refined_raw,
        held_out={},
        held_out_skipped={name: _NOT_HELD_OUT for name in refined.by_category},
        survival=after.survival,
        n_train=len(train),
        n_eval=len(evaluation),
        n_aborted=int((~train.finished).sum() + (~evaluation.finished).sum()),
    )


def _name_of(bundle: PredictorBundle) -> str:
    """What a bundle is called, without the folders it lies in."""
    source = str(bundle.source)
    if re.search(r"@[0-9a-f]{7,}$|\(of this package\)$", source):
        return source
    folder = Path(source).resolve()
    return folder.parent.name if folder.name == "bundle" else folder.name
