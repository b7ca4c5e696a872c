from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss

from dwise_predict.baselines.settings import TuningSettings
from dwise_predict.baselines.tuning import fit_head, remaining_rate, seeded


@pytest.mark.parametrize(
    ("decay", "rates"),
    [
        ("constant", [1.0, 1.0, 1.0, 1.0]),
        ("linear", [1.0, 0.75, 0.5, 0.25]),
        ("cosine", [1.0, (1 + math.sqrt(0.5)) / 2, 0.5, (1 - math.sqrt(0.5)) / 2]),
    ],
)
def test_learning_rates_fall(decay: str, rates: list[float]) -> None:
    assert [remaining_rate(decay, step / 4) for step in range(4)] == pytest.approx(rates)


@pytest.mark.parametrize("decoupled", [True, False])
def test_training_makes_the_steps_of_torch_s_own_loop(decoupled: bool) -> None:
    """Independent of our loop: the same seed, batches, schedule and optimiser written out."""
    x, y = torch.randn(10, 3), torch.randn(10, 1)
    settings = TuningSettings(
        epochs=2, batch_size=4, learning_rate=0.1, decay="linear", decoupled=decoupled
    )
    shares: list[float] = []
    with seeded(7):
        ours = nn.Linear(3, 1)
        fit_head(ours, x, lambda out, rows: mse_loss(out, y[rows]), settings, shares.append)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        plain = nn.Linear(3, 1)
        kind = torch.optim.AdamW if decoupled else torch.optim.Adam
        optimizer = kind(plain.parameters(), lr=0.1, weight_decay=0.01)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / 6)
        for _ in range(2):
            order = torch.randperm(10)
            for start in (0, 4, 8):
                rows = order[start : start + 4]
                optimizer.zero_grad()
                mse_loss(plain(x[rows]), y[rows]).backward()
                optimizer.step()
                schedule.step()
    torch.testing.assert_close(ours.weight, plain.weight)
    torch.testing.assert_close(ours.bias, plain.bias)
    assert sum(shares) == pytest.approx(1.0)
    assert not ours.training


def test_seeds_inside_leave_the_numbers_outside_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    first = torch.rand(2)
    with seeded(1):
        torch.rand(100)
    torch.testing.assert_close(torch.cat([first, torch.rand(2)]), expected)
