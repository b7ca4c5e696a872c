"""Predictors that go on from others: what they keep, and what they learn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from dwise_predict.predictors.admission import (
    AdmissionPredictor,
    continue_admission,
    fit_admission,
    scaled_admission,
)
from dwise_predict.predictors.examples import Examples
from dwise_predict.predictors.features import feature_matrix
from dwise_predict.predictors.fitting import expected_remaining, fit_refiner
from dwise_predict.recipe import AdmissionSettings, RefinerSettings
from tests.synthetic import synthetic_examples

ADMISSION = AdmissionSettings()
REFINER = RefinerSettings(width=32, epochs=15, patience=5, members=2)
STILL = REFINER.model_copy(update={"learning_rate": 1e-30, "weight_decay": 0.0})
"""Steps too small to change a float32."""


def matrix(examples: Examples) -> np.ndarray:
    return feature_matrix(examples.words, examples.newlines, examples.prompt_tokens)


def fitted(examples: Examples) -> AdmissionPredictor:
    return fit_admission(matrix(examples), examples.rounds, ADMISSION, seed=0)


def continued(start: AdmissionPredictor, examples: Examples) -> AdmissionPredictor:
    return continue_admission(
        start, matrix(examples), examples.rounds, examples.prompt, ADMISSION, seed=0
    )


def log_error(predictor: AdmissionPredictor, examples: Examples) -> float:
    predicted = predictor.rounds_batch(examples.words, examples.newlines, examples.prompt_tokens)
    return float(np.square(np.log(predicted / examples.rounds)).mean())


@pytest.fixture(scope="module")
def base() -> Examples:
    return synthetic_examples(500, 1, 16)


@pytest.fixture(scope="module")
def longer() -> Examples:
    """Other prompts, whose rounds are twice what they were, some beyond the old horizon."""
    examples = synthetic_examples(400, 2, 16)
    return replace(examples, rounds=examples.rounds * 2)


def test_scaled_admission_predicts_so_many_times_as_much(base: Examples) -> None:
    start = fitted(base)
    for factor in (0.9, 1.0, 2.5):
        scaled = scaled_admission(start, factor)
        ours, theirs = (
            p.rounds_batch(base.words, base.newlines, base.prompt_tokens) for p in (scaled, start)
        )
        np.testing.assert_allclose(ours, np.maximum(factor * theirs, 1), rtol=1e-9)
        assert scaled.size() == start.size()


def test_continued_admission_learns_a_new_scale(base: Examples, longer: Examples) -> None:
    start = fitted(base)
    later = replace(unseen := synthetic_examples(400, 3, 16), rounds=unseen.rounds * 2)
    more = continued(start, longer)
    assert log_error(more, later) < 0.8 * log_error(start, later)
    assert log_error(more, later) < 1.05 * log_error(fitted(longer), later)


def test_continued_admission_learns_what_a_new_kind_of_request_takes(base: Examples) -> None:
    long_prompts = replace(
        few := synthetic_examples(300, 4, 16),
        words=few.words + 50_000,
        prompt_tokens=few.prompt_tokens + 80_000,
        rounds=np.full(300, 100),
    )
    start, split = fitted(base), np.arange(300) < 200
    more = continued(start, long_prompts.take(split))
    assert log_error(start, long_prompts.take(~split)) > 0.5
    assert log_error(more, long_prompts.take(~split)) < 0.05


def test_few_requests_of_the_same_kind_rarely_change_admission(base: Examples) -> None:
    start, later = fitted(base), synthetic_examples(1000, 5, 16)
    changed = []
    for seed in range(6, 18):
        more = continued(start, synthetic_examples(40, seed, 16))
        changed.append(log_error(more, later) / log_error(start, later))
    assert np.mean(changed) < 1.02
    assert sum(each == 1 for each in changed) >= 8


def test_continuing_gives_the_same_bytes_again(base: Examples, longer: Examples) -> None:
    start = fitted(base)
    assert continued(start, longer).text == continued(start, longer).text


def test_a_refiner_that_learns_nothing_stays_what_it_was(base: Examples) -> None:
    start = fit_refiner(base, REFINER, seed=0)
    shorter = base.take(base.rounds < start.horizon)
    same = fit_refiner(shorter, STILL, seed=1, start=start)
    assert same.horizon == start.horizon
    np.testing.assert_allclose(
        expected_remaining(same, base), expected_remaining(start, base), rtol=1e-4
    )
    assert torch.equal(same.normalisation.centre, start.normalisation.centre)


def test_longer_durations_extend_the_horizon_and_leave_the_rest(
    base: Examples, longer: Examples
) -> None:
    start = fit_refiner(base, REFINER, seed=0)
    same = fit_refiner(longer, STILL, seed=1, start=start)
    assert same.horizon == longer.durations.max() > start.horizon
    old, new = (
        r(base.hidden, base.prompt_tokens, base.budget_tokens).survival().numpy()
        for r in (start, same)
    )
    np.testing.assert_allclose(new[:, : old.shape[1]], old, atol=1e-5)
    # Beyond, the hazard of the last round goes on, member by member; with one member exactly.
    one = fit_refiner(base, REFINER.model_copy(update={"members": 1}), seed=0)
    alone = STILL.model_copy(update={"members": 1})
    s = fit_refiner(longer, alone, seed=1, start=one)(
        base.hidden[:5], base.prompt_tokens[:5], base.budget_tokens[:5]
    ).survival().double().numpy()  # fmt: skip
    k = one.horizon
    alive = s[:, k - 1] > 1e-20
    ratios = s[alive, k : k + 5] / s[alive, k - 1 : k + 4]
    np.testing.assert_allclose(ratios, np.repeat(ratios[:, :1], 5, axis=1), rtol=1e-3)


def test_a_refreshed_refiner_learns_the_new_requests(base: Examples, longer: Examples) -> None:
    start = fit_refiner(base, REFINER, seed=0)
    later = replace(unseen := synthetic_examples(300, 3, 16), rounds=unseen.rounds * 2)
    more = fit_refiner(longer, REFINER.model_copy(update={"epochs": 80}), seed=1, start=start)
    before, after = (
        np.abs(expected_remaining(r, later) - later.durations).mean() for r in (start, more)
    )
    assert after < 0.8 * before


def test_refreshing_gives_the_same_bytes_again(base: Examples, longer: Examples) -> None:
    start = fit_refiner(base, REFINER, seed=0)
    a, b = (fit_refiner(longer, REFINER, seed=1, start=start).tensors() for _ in range(2))
    assert all(np.array_equal(a[name], b[name]) for name in a)
