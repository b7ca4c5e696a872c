"""TRAIL's smoothing against exact arithmetic and against a hidden Markov model counted out."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dwise_predict.baselines.buckets import Buckets
from dwise_predict.baselines.trail import posterior, transition


def test_the_transition_matrix_is_the_paper_s_for_one_token_a_step() -> None:
    expected = np.zeros((4, 4))
    for i in range(4):
        expected[i, i] = 1.0 if i == 0 else 1 - 1 / 8
        if i:
            expected[i, i - 1] = 1 / 8
    np.testing.assert_array_equal(transition(Buckets(4, 32), 1.0).numpy(), expected)


@given(st.integers(2, 12), st.integers(1, 600), st.floats(0, 50))
def test_rows_of_the_transition_matrix_are_distributions(
    count: int, limit: int, tokens: float
) -> None:
    matrix = transition(Buckets(count, limit), tokens).numpy()
    assert (matrix >= 0).all()
    np.testing.assert_allclose(matrix.sum(1), 1)
    assert np.array_equal(np.triu(matrix, 1), np.zeros_like(matrix))


def exact_posterior(before: list[int], evidence: list[int], matrix: list[list[Fraction]]) -> list:
    """Bayes' rule in whole numbers."""
    bins = range(len(before))
    prior = [sum(before[i] * matrix[i][j] for i in bins) for j in bins]
    joint = [prior[j] * evidence[j] for j in bins]
    return [value / sum(joint) for value in joint]


@given(st.data())
def test_the_update_is_bayes_rule(data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 5))
    weights = st.lists(st.integers(1, 9), min_size=size, max_size=size)
    before, evidence = data.draw(weights), data.draw(weights)
    down = Fraction(data.draw(st.integers(0, 8)), 8)
    matrix = [[Fraction(0)] * size for _ in range(size)]
    for i in range(size):
        matrix[i][i] = 1 - down if i else Fraction(1)
        if i:
            matrix[i][i - 1] = down
    expected = [float(x) for x in exact_posterior(before, evidence, matrix)]
    found = posterior(
        np.array([before], dtype=np.float64) / sum(before),
        np.array([evidence], dtype=np.float64) / sum(evidence),
        transition(Buckets(size, size * 8), 8 * float(down)).numpy(),
    )
    np.testing.assert_allclose(found[0], expected, rtol=1e-12)


def test_many_updates_are_the_forward_pass_of_a_hidden_markov_model() -> None:
    rng = np.random.default_rng(0)
    bins, steps = 3, 4
    matrix = transition(Buckets(bins, 12), 1.5).numpy()
    evidence = rng.dirichlet(np.ones(bins), size=steps)
    belief = evidence[:1]
    for step in range(1, steps):
        belief = posterior(belief, evidence[step : step + 1], matrix)
    by_paths = np.zeros(bins)
    for path in product(range(bins), repeat=steps):
        weight = evidence[0, path[0]]
        for step in range(1, steps):
            weight *= matrix[path[step - 1], path[step]] * evidence[step, path[step]]
        by_paths[path[-1]] += weight
    np.testing.assert_allclose(belief[0], by_paths / by_paths.sum())


def test_evidence_that_the_past_rules_out_counts_alone() -> None:
    matrix = transition(Buckets(3, 12), 1.0).numpy()
    before, evidence = np.array([[1.0, 0.0, 0.0]]), np.array([[0.0, 0.0, 1.0]])
    np.testing.assert_array_equal(posterior(before, evidence, matrix), evidence)
    assert torch.isfinite(torch.from_numpy(posterior(before, evidence, matrix))).all()


def test_the_lowest_bin_is_never_left() -> None:
    matrix = transition(Buckets(3, 12), 100.0).numpy()
    assert matrix[0, 0] == 1.0
    assert matrix[2, 1] == pytest.approx(1.0)
