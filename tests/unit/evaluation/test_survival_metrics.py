"""Agreement with scikit-survival, pycox and SurvivalEVAL (results stored by tests/oracles)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from dwise_predict.evaluation.survival import (
    brier_scores,
    concordance_index,
    coverage,
    d_calibration,
    integrated_brier,
    randomised_survival,
)
from dwise_predict.predictors.survival import survival_from_logits

CASES = json.loads((Path(__file__).parents[2] / "oracles" / "survival.json").read_text())["cases"]


def load(stored: dict) -> dict:
    arrays = {name: np.array(value) for name, value in stored.items()}
    logits = torch.from_numpy(arrays["logits"])
    return {**arrays, "survival": survival_from_logits(logits).numpy()}


@pytest.fixture(params=CASES, ids=["uncensored", "some censored", "most censored"])
def case(request: pytest.FixtureRequest) -> dict:
    return load(request.param)


def test_concordance_agrees_with_scikit_survival(case: dict) -> None:
    ours = concordance_index(case["predicted"], case["durations"], case["events"])
    assert ours == pytest.approx(float(case["sksurv_concordance"]), abs=1e-12)


def test_brier_scores_agree_with_scikit_survival(case: dict) -> None:
    ours = brier_scores(case["survival"], case["durations"], case["events"])
    np.testing.assert_allclose(ours[1:-1], case["sksurv_brier"], atol=1e-12)
    assert ours[0] == 0


def test_brier_scores_agree_with_pycox_without_censoring() -> None:
    """Ties of events and censorings are where pycox differs from scikit-survival."""
    case = load(CASES[0])
    assert case["events"].all()
    ours = brier_scores(case["survival"], case["durations"], case["events"])
    np.testing.assert_allclose(ours[1:-1], case["pycox_brier"], atol=1e-12)


def test_integrated_brier_agrees_with_scikit_survival(case: dict) -> None:
    ours = integrated_brier(case["survival"], case["durations"], case["events"])
    assert ours == pytest.approx(float(case["sksurv_integrated_brier"]), abs=1e-12)


def test_d_calibration_agrees_with_survivaleval(case: dict) -> None:
    ours = d_calibration(case["survival_at_end"], case["events"])
    assert ours == pytest.approx(float(case["survivaleval_d_calibration_p"]), rel=1e-9)


def test_concordance_by_hand() -> None:
    durations, events = np.array([1, 2, 3]), np.array([True, True, True])
    assert concordance_index(np.array([1.0, 2, 3]), durations, events) == 1
    assert concordance_index(np.array([3.0, 2, 1]), durations, events) == 0
    assert concordance_index(np.array([1.0, 1, 1]), durations, events) == 0.5
    assert concordance_index(np.array([1.0, 2, 3]), durations, ~events) is None


def test_perfect_knowledge_has_brier_score_zero() -> None:
    durations = np.array([1, 3, 5, 5])
    survival = (durations[:, None] > np.arange(6)).astype(float)
    assert integrated_brier(survival, durations, np.ones(4, dtype=bool)) == 0


def test_integrated_brier_needs_two_rounds() -> None:
    assert integrated_brier(np.ones((3, 4)), np.array([1, 2, 2]), np.ones(3, dtype=bool)) is None


def simulated(shift: float, seed: int) -> float:
    """P-value when discrete durations follow hazards that are ``shift`` off in log odds."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(-1, 0.7, (600, 30))
    hazards = 1 / (1 + np.exp(-logits))
    ends = rng.random(hazards.shape) < hazards
    durations = np.where(ends.any(1), ends.argmax(1) + 1, 30)
    events = ends.any(1)
    predicted = survival_from_logits(torch.from_numpy(logits + shift)).numpy()
    return d_calibration(randomised_survival(predicted, durations, events), events)


def test_d_calibration_accepts_right_probabilities_and_refuses_wrong_ones() -> None:
    right = [simulated(0.0, seed) for seed in range(40)]
    assert np.mean(np.array(right) < 0.05) < 0.2
    assert np.median(right) > 0.2
    assert max(simulated(0.5, seed) for seed in range(5)) < 0.01


def test_durations_beyond_the_horizon_use_the_mass_that_is_left() -> None:
    survival = np.array([[1.0, 0.6, 0.4]])
    drawn = randomised_survival(survival, np.array([9]), np.array([True]))
    assert 0 <= drawn[0] <= 0.4


def test_coverage_counts_ends_inside_and_parts_of_censored_ones() -> None:
    at_end = np.array([0.05, 0.1, 0.5, 0.9, 0.95, 0.5, 1.0, 0.05, 0.0])
    events = np.array([True, True, True, True, True, False, False, False, False])
    # The censored at 0.5 end in [0, 0.5], of which [0.1, 0.5] counts; those at 1 in [0, 1].
    expected = [0, 1, 1, 1, 0, 0.4 / 0.5, 0.8, 0, 0]
    assert coverage(at_end, events, 0.8) == pytest.approx(np.mean(expected))


def test_coverage_of_right_predictions_is_what_it_should_be() -> None:
    rng = np.random.default_rng(7)  # not the seed with which jumps are filled
    hazards = rng.uniform(0.02, 0.4, size=(4000, 1)) * np.ones((1, 200))
    survival = np.concatenate([np.ones((4000, 1)), np.cumprod(1 - hazards, axis=1)], axis=1)
    durations = rng.geometric(hazards[:, 0])
    limit = rng.integers(1, 60, size=4000)
    events = durations <= limit
    at_end = randomised_survival(survival, np.minimum(durations, limit), events)
    for share in (0.5, 0.8):
        assert coverage(at_end, events, share) == pytest.approx(share, abs=0.02)
