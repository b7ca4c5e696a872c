from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dwise_predict.predictors.errors import TrainingError
from dwise_predict.predictors.survival import (
    LabelTransform,
    hazard_basis,
    kaplan_meier_logits,
    nll_logistic_hazard,
    pmf_from_survival,
    survival_from_logits,
)

ORACLES = Path(__file__).parents[2] / "oracles" / "survival.json"
CASES = json.loads(ORACLES.read_text())["cases"]


@pytest.mark.parametrize("case", CASES)
def test_loss_agrees_with_pycox(case: dict) -> None:
    loss = nll_logistic_hazard(
        torch.tensor(case["logits"]), torch.tensor(case["durations"]), torch.tensor(case["events"])
    )
    np.testing.assert_allclose(loss, case["pycox_nll"], rtol=1e-5)


@given(st.integers(0, 2**32 - 1))
def test_loss_is_minus_log_of_the_pmf_or_of_survival(seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits = torch.from_numpy(rng.normal(size=(5, 7)))
    durations = torch.from_numpy(rng.integers(1, 8, 5))
    survival = survival_from_logits(logits)
    rows = torch.arange(5)
    event = nll_logistic_hazard(logits, durations, torch.ones(5, dtype=torch.bool))
    censored = nll_logistic_hazard(logits, durations, torch.zeros(5, dtype=torch.bool))
    torch.testing.assert_close(event, -pmf_from_survival(survival)[rows, durations - 1].log())
    torch.testing.assert_close(censored, -survival[rows, durations].log())


def test_loss_ignores_logits_after_the_end() -> None:
    logits = torch.randn(1, 6, generator=torch.Generator().manual_seed(0), requires_grad=True)
    nll_logistic_hazard(logits, torch.tensor([3]), torch.tensor([True])).sum().backward()
    assert (logits.grad[0, 3:] == 0).all()
    assert (logits.grad[0, :3] != 0).all()


def test_pmf_sums_to_one_with_the_mass_beyond_the_horizon_last() -> None:
    survival = survival_from_logits(torch.tensor([[-1.0, 0.0, 2.0]], dtype=torch.float64))
    pmf = pmf_from_survival(survival)
    assert pmf.shape == (1, 4)
    assert pmf.sum().item() == pytest.approx(1)
    assert pmf[0, -1] == survival[0, -1]


def test_label_transform_cuts_at_the_horizon() -> None:
    labels = LabelTransform.fit(np.array([0, 3, 5]))
    durations, events = labels.transform(np.array([2, 5, 9]), np.array([True, True, True]))
    assert labels.horizon == 5
    assert durations.tolist() == [2, 5, 5]
    assert events.tolist() == [True, True, False]


def test_label_transform_needs_a_positive_duration() -> None:
    with pytest.raises(TrainingError, match="first denoising round"):
        LabelTransform.fit(np.zeros(3, dtype=np.int64))


def test_population_hazards_are_those_of_kaplan_meier_without_a_prior() -> None:
    durations = np.array([1, 2, 2, 3, 3, 3])
    events = np.array([True, True, False, True, True, True])
    hazard = 1 / (1 + np.exp(-kaplan_meier_logits(durations, events, 3, prior_requests=1e-9)[:2]))
    np.testing.assert_allclose(hazard, [1 / 6, 1 / 5], rtol=1e-6)


def test_population_hazards_stay_finite_where_nobody_or_everybody_ends() -> None:
    logits = kaplan_meier_logits(np.array([4, 4]), np.array([True, True]), 6)
    assert np.isfinite(logits).all()
    assert logits[3] == logits.max()


@given(st.integers(1, 400), st.integers(2, 40))
def test_hazard_basis_is_a_partition_of_unity(horizon: int, knots: int) -> None:
    basis = hazard_basis(horizon, knots)
    assert basis.shape[1] == horizon
    assert 1 <= basis.shape[0] <= knots
    np.testing.assert_allclose(basis.sum(0), 1, atol=1e-6)
