from __future__ import annotations

import math

import pytest

from dwise_predict.scheduling import ResidencyLimits, build_scheduler, make_policy


def test_reservations_are_whole_blocks_with_slack() -> None:
    limits = ResidencyLimits(slots=128, block_size=32, kv_tokens=100_000)
    assert limits.reservation(prompt_tokens=100, budget_tokens=256) == 12 + 2
    assert limits.reservation(prompt_tokens=96, budget_tokens=256) == 11 + 2
    assert limits.pool_blocks == 2812  # of 90,000 tokens
    assert limits.cap == 1024
    assert ResidencyLimits(slots=1, block_size=4).pool_blocks == math.inf


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slots": 0}, "slots must be at least 1"),
        ({"multiplier": 0}, "multiplier must be at least 1"),
        ({"block_size": 0}, "block_size must be at least 1"),
        ({"kv_share": 0.0}, "kv_share must be above 0"),
        ({"kv_share": 1.1}, "kv_share must be above 0 and at most 1, not 1.1"),
        ({"slack_blocks": -1}, "slack_blocks must not be negative"),
    ],
)
def test_refuses_impossible_limits(options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ResidencyLimits(**{"slots": 1, "block_size": 4, **options})  # type: ignore[arg-type]


@pytest.mark.parametrize("hysteresis", [-0.1, 1.0])
def test_refuses_impossible_hysteresis(hysteresis: float) -> None:
    with pytest.raises(ValueError, match="hysteresis must be at least 0 and below 1"):
        limits = ResidencyLimits(slots=1, block_size=4)
        build_scheduler(make_policy("dwise"), "mixed_phase", limits, hysteresis)
