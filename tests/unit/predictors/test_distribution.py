from __future__ import annotations

import pytest
import torch

from dwise_predict.predictors.calibration import CalibrationMap
from dwise_predict.predictors.distribution import RemainingRounds

# P(T=1)=.5, P(T=2)=.25, P(T=3)=.15, P(T>3)=.10 and a certain T=2
SURVIVAL = torch.tensor([[1, 0.5, 0.25, 0.1], [1, 1, 0, 0]], dtype=torch.float64)


def test_mean_counts_the_tail_as_the_first_round_beyond_the_horizon() -> None:
    remaining = RemainingRounds(SURVIVAL)
    expected = 1 * 0.5 + 2 * 0.25 + 3 * 0.15 + 4 * 0.10
    assert remaining.mean().tolist() == pytest.approx([expected, 2])
    rounds = torch.arange(1, 5)
    assert (remaining.pmf() * rounds).sum(1).tolist() == pytest.approx([expected, 2])


@pytest.mark.parametrize(
    ("q", "expected"),
    [(0.01, [1, 2]), (0.5, [1, 2]), (0.51, [2, 2]), (0.9, [3, 2]), (0.95, [4, 2])],
)
def test_quantile_is_the_smallest_round_that_reaches_q(q: float, expected: list[int]) -> None:
    assert RemainingRounds(SURVIVAL).quantile(q).tolist() == expected


@pytest.mark.parametrize("q", [0, 1, -0.5, 2])
def test_quantile_refuses_levels_outside_zero_to_one(q: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        RemainingRounds(SURVIVAL).quantile(q)


def test_mean_residual_by_hand() -> None:
    remaining = RemainingRounds(SURVIVAL)
    # given T > 1: T is 2, 3 or 4 with .25, .15, .10 of .5
    after_one = (0.25 * 1 + 0.15 * 2 + 0.10 * 3) / 0.5
    assert remaining.mean_residual(1).tolist() == pytest.approx([after_one, 1])
    assert remaining.mean_residual(torch.tensor([3, 1])).tolist() == pytest.approx([1, 1])


def test_mean_residual_after_nothing_is_the_mean() -> None:
    remaining = RemainingRounds(SURVIVAL)
    torch.testing.assert_close(remaining.mean_residual(0), remaining.mean())


def test_a_request_that_outlived_its_distribution_has_one_round_left() -> None:
    remaining = RemainingRounds(SURVIVAL)
    assert remaining.mean_residual(2)[1] == 1
    assert remaining.mean_residual(1000).tolist() == [1, 1]


def test_mean_residuals_are_the_mean_residual_of_every_round() -> None:
    for calibration in (None, CalibrationMap((1.0, 11.0), (1.0, 6.0))):
        remaining = RemainingRounds(SURVIVAL, calibration)
        one_by_one = torch.stack([remaining.mean_residual(t) for t in range(4)], dim=1)
        torch.testing.assert_close(remaining.mean_residuals(), one_by_one)


def test_mean_residual_refuses_negative_progress() -> None:
    with pytest.raises(ValueError, match=">= 0"):
        RemainingRounds(SURVIVAL).mean_residual(torch.tensor([0, -1]))


def test_calibration_maps_estimates_alike_and_leaves_probabilities_alone() -> None:
    halved = CalibrationMap((1.0, 11.0), (1.0, 6.0))  # x -> 1 + (x - 1) / 2
    raw, mapped = RemainingRounds(SURVIVAL), RemainingRounds(SURVIVAL, halved)
    torch.testing.assert_close(mapped.mean(), 1 + (raw.mean() - 1) / 2)
    torch.testing.assert_close(mapped.mean_residual(0), mapped.mean())
    torch.testing.assert_close(mapped.mean_residual(1), 1 + (raw.mean_residual(1) - 1) / 2)
    torch.testing.assert_close(mapped.mean(calibrated=False), raw.mean())
    assert mapped.quantile(0.9).tolist() == raw.quantile(0.9).tolist()
    torch.testing.assert_close(mapped.survival(), raw.survival())


def test_shape_is_checked() -> None:
    with pytest.raises(ValueError, match="survival must be"):
        RemainingRounds(torch.ones(3))
