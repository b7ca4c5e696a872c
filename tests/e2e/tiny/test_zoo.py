"""The shipped bundle does what a bundle trained anew does.

Trained anew means another seed, so another workload, other networks and another machine: the two
agree within what such differences make, and no better agreement can be promised.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from dwise_predict import PredictorBundle
from dwise_predict.pipeline import RunResult
from dwise_predict.profile import read_profile

RANK = 0.03
"""Most difference in the Spearman correlation of refined estimates with true rounds."""
RATIO = 0.1
"""Most difference in the median of predicted / actual."""
ERROR = 0.2
"""Most relative difference in the mean absolute error."""
AGREEMENT = 0.95
"""Least Spearman correlation between the estimates of both bundles."""


@pytest.fixture(scope="module")
def estimates(result: RunResult) -> dict[str, np.ndarray]:
    """Total rounds by both bundles, of requests that neither was trained on."""
    profile = read_profile(result.folder.profile)
    held_out = np.array(profile.requests["split"].to_pylist()) == "eval"
    rows = profile.requests.filter(held_out)
    columns = (rows["prompt_tokens"].to_numpy(), rows["budget_tokens"].to_numpy())
    bundles = {
        "shipped": PredictorBundle.from_pretrained("tiny"),
        "retrained": PredictorBundle.load(result.folder.bundle),
    }
    return {"true": rows["rounds"].to_numpy()} | {
        name: bundle.refiner(profile.hidden[held_out], *columns).mean().numpy() + 1
        for name, bundle in bundles.items()
    }


def test_the_retrained_bundle_fits_what_the_shipped_one_fits(result: RunResult) -> None:
    shipped = PredictorBundle.from_pretrained("tiny")
    retrained = PredictorBundle.load(result.folder.bundle)
    assert shipped.check(retrained.config.fingerprint).level == "compatible"
    assert shipped.config.settings == retrained.config.settings


def test_both_rank_unseen_requests_alike(estimates: dict[str, np.ndarray]) -> None:
    true = estimates["true"]
    shipped, retrained = (
        spearmanr(estimates[name], true).statistic for name in ("shipped", "retrained")
    )
    assert shipped > 0.85
    assert shipped == pytest.approx(retrained, abs=RANK)
    assert spearmanr(estimates["shipped"], estimates["retrained"]).statistic > AGREEMENT


def test_both_are_on_the_scale_of_true_rounds(estimates: dict[str, np.ndarray]) -> None:
    true = estimates["true"]
    ratios, errors = {}, {}
    for name in ("shipped", "retrained"):
        ratios[name] = np.median(estimates[name] / true)
        errors[name] = np.abs(estimates[name] - true).mean()
    assert ratios["shipped"] == pytest.approx(1, abs=RATIO)
    assert ratios["shipped"] == pytest.approx(ratios["retrained"], abs=RATIO)
    assert errors["shipped"] == pytest.approx(errors["retrained"], rel=ERROR)
