"""An existing bundle on the requests of a profile that it was not trained on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from dwise_predict.bundle import Metrics, PredictorBundle
from dwise_predict.evaluation.changes import Unseen
from dwise_predict.evaluation.drift import Drift, measure_drift
from dwise_predict.evaluation.judged import Judged, judge
from dwise_predict.evaluation.predictors import Predictors
from dwise_predict.lineage import Lineage, lineage_of
from dwise_predict.predictors.errors import TrainingError
from dwise_predict.predictors.examples import Examples
from dwise_predict.profile import Profile
from dwise_predict.training import examples_from_profile, profile_sha256


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class BundleEvaluation(_Record):
    """What ``dwise evaluate --output`` writes."""

    format: Literal["dwise-evaluation"] = "dwise-evaluation"
    format_version: Literal[1] = 1
    bundle: str = Field(description="Where it was loaded from.")
    bundle_digest: str = Field(description="The digest in its config.json.")
    profile: str = Field(description="Where the profile lies.")
    profile_sha256: str = Field(description="What identifies its content.")
    compatibility: tuple[str, ...] = Field(
        description="Differences of the fingerprints that make predictions less exact."
    )
    unseen: Unseen
    own: Metrics = Field(description="The bundle's metrics.json.")
    drift: Drift


def evaluate_bundle(
    bundle: PredictorBundle,
    profile: Profile,
    source: str,
    given: Sequence[Profile] = (),
) -> BundleEvaluation:
    """Score ``bundle`` on the requests of ``profile`` and compare with its own metrics.

    Args:
        bundle: is left as it is.
        profile: new traffic, with or without a split.
        source: where the profile comes from, as it is shown.
        given: profiles that a person says the bundle was trained on.

    Raises:
        IncompatibleBundleError: predictions of the bundle mean nothing for this profile.
        TrainingError: no finished request is left that the bundle was not fitted on.
        ProfileError: the profile beside the bundle is damaged.
    """
    fingerprint = profile.run.fingerprint
    verdict = bundle.check(fingerprint)
    if not verdict.usable:
        bundle.require(fingerprint)  # says why; what only makes predictions worse is returned
    lineage = lineage_of(bundle, profile, given)
    examples = examples_from_profile(profile)
    fresh = fresh_examples(examples, lineage)
    judged = judge_bundle(bundle, fresh)
    return BundleEvaluation(
        bundle=str(bundle.source),
        bundle_digest=bundle.config.digest,
        profile=source,
        profile_sha256=profile_sha256(profile.run),
        compatibility=tuple(difference.sentence for difference in verdict.differences),
        unseen=Unseen(left_out=len(examples) - len(fresh), unknown_profiles=lineage.unknown),
        own=bundle.metrics,
        drift=measure_drift(judged, bundle.metrics),
    )


def judge_bundle(bundle: PredictorBundle, examples: Examples) -> Judged:
    """Predict ``examples`` (one at least) with both predictors of ``bundle``."""
    predictors = Predictors(bundle.admission, bundle.refiner)
    return judge(predictors, examples, bundle.config.refiner.duration)


def fresh_examples(examples: Examples, lineage: Lineage) -> Examples:
    """Requests whose prompts the bundle is not known to be fitted on.

    Raises:
        TrainingError: none of them was served to its end.
    """
    if not examples.finished.any():
        raise TrainingError(
            "every request of this profile was aborted, so there are no rounds to compare with; "
            "profile again, with the server's log at hand"
        )
    fresh = examples.take(lineage.fresh(examples.prompt))
    if not fresh.finished.any():
        raise TrainingError(
            "the bundle was fitted on the prompts of every finished request of this profile, so "
            "nothing could be said about it; profile other prompts"
        )
    return fresh
