"""ListMLE against the model that it is the likelihood of, counted out."""

from __future__ import annotations

import math
from itertools import permutations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dwise_predict.baselines.ltr import list_mle

scores = st.lists(st.floats(-5, 5), min_size=1, max_size=5)


def likelihood(order: tuple[int, ...], values: list[float]) -> float:
    """Chance that items are drawn in ``order``, each in proportion to exp(value) among the rest."""
    product, left = 1.0, list(range(len(values)))
    for item in order:
        product *= math.exp(values[item]) / sum(math.exp(values[other]) for other in left)
        left.remove(item)
    return product


@given(scores)
def test_it_is_minus_the_log_likelihood_of_the_true_order(values: list[float]) -> None:
    for order in permutations(range(len(values))):
        relevance = torch.empty(len(values))
        relevance[list(order)] = torch.arange(len(values), 0, -1.0)
        loss = list_mle(torch.tensor(values, dtype=torch.float64), relevance)
        assert float(loss) == pytest.approx(-math.log(likelihood(order, values)), abs=1e-9)


@given(scores)
def test_likelihoods_of_all_orders_sum_to_one(values: list[float]) -> None:
    items = range(len(values))
    total = sum(
        math.exp(-float(list_mle(torch.tensor(values, dtype=torch.float64), torch.tensor(rank))))
        for rank in permutations(items)
    )
    assert total == pytest.approx(1.0)


def test_ties_take_either_order() -> None:
    values = [0.3, -1.0, 2.0]
    relevance = torch.tensor([5, 1, 5])
    either = {round(-math.log(likelihood(order, values)), 9) for order in [(0, 2, 1), (2, 0, 1)]}
    seen = {
        round(float(list_mle(torch.tensor(values, dtype=torch.float64), relevance)), 9)
        for _ in range(40)
    }
    assert seen == either


def test_large_scores_neither_overflow_nor_lose_their_gradient() -> None:
    values = torch.tensor([800.0, -800.0, 0.0], requires_grad=True)
    loss = list_mle(values, torch.tensor([1, 3, 2]))
    loss.backward()
    assert loss.item() == pytest.approx(2400.0)
    assert values.grad is not None
    torch.testing.assert_close(values.grad, torch.tensor([2.0, -1.0, -1.0]), rtol=0, atol=1e-3)
