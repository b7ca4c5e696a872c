from __future__ import annotations

import torch
from torch.nn.functional import gelu

from dwise_predict.predictors.network import MemberMLP, dropout_masks


def generators(*seeds: int) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(seed) for seed in seeds]


def test_batched_members_equal_separate_networks() -> None:
    network = MemberMLP(3, (5, 7, 7, 4), generators(0, 1, 2))
    x = torch.randn(3, 6, 5, generator=torch.Generator().manual_seed(9))
    together = network(x)
    for m in range(3):
        h = x[m]
        for i, name in enumerate(network.layers):
            weight = network.get_parameter(f"{name}_weight")[m]
            h = h @ weight + network.get_parameter(f"{name}_bias")[m]
            h = gelu(h) if i < 2 else h
        torch.testing.assert_close(together[m], h)


def test_shared_inputs_go_to_every_member() -> None:
    network = MemberMLP(2, (5, 3), generators(0, 1))
    x = torch.randn(6, 5, generator=torch.Generator().manual_seed(9))
    torch.testing.assert_close(network(x), network(x.expand(2, -1, -1)))


def test_members_do_not_share_gradients() -> None:
    network = MemberMLP(2, (5, 3, 2), generators(0, 1))
    network(torch.ones(4, 5))[0].sum().backward()
    for parameter in network.parameters():
        assert parameter.grad[0].abs().sum() > 0
        assert parameter.grad[1].abs().sum() == 0


def test_a_members_weights_and_masks_depend_on_its_own_seed_only() -> None:
    alone, pair = MemberMLP(1, (5, 3), generators(7)), MemberMLP(2, (5, 3), generators(1, 7))
    assert torch.equal(alone.last_weight[0], pair.last_weight[1])
    one = dropout_masks(generators(7), 4, 6, 2, 0.2)
    two = dropout_masks(generators(1, 7), 4, 6, 2, 0.2)
    assert torch.equal(one[1][0], two[1][1])


def test_dropout_masks_keep_the_expectation() -> None:
    masks = dropout_masks(generators(0), 200, 200, 2, 0.2)
    assert len(masks) == 2
    assert set(masks[0].unique().tolist()) == {0.0, 1.25}
    assert abs(masks[0].mean().item() - 1) < 0.02
    assert dropout_masks(generators(0), 4, 4, 2, 0.0) == []
