from __future__ import annotations

import pytest

from dwise_predict.scheduling import POLICIES, RoundCost, make_policy
from dwise_predict.scheduling.policies import S3, Dwise, Fcfs


def test_every_name_makes_a_policy_with_defaults() -> None:
    for name, kind in POLICIES.items():
        assert isinstance(make_policy(name), kind)
    assert make_policy("dwise") == make_policy("oracle") == Dwise()
    assert make_policy("fcfs", {}) == Fcfs()


def test_options_may_be_plain_values() -> None:
    assert make_policy("s3", {"edges": [1, 2]}) == S3(edges=(1.0, 2.0))
    cost = {"base_ms": 10, "slot_ms": 0.4, "kv_ms": 0.001}
    assert make_policy("dwise", {"unit": "time", "cost": cost}) == Dwise(
        unit="time", cost=RoundCost(10.0, 0.4, 0.001)
    )


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("dwize", {}, "unknown policy 'dwize'; did you mean 'dwise'"),
        ("dwise", {"ageing": 2}, "option of policy dwise 'ageing'; did you mean 'aging'"),
        ("fcfs", {"quantum": 2}, r"option of policy fcfs 'quantum'; valid: \(none\)"),
        ("dwise", {"estimate": "zero"}, "dwise: estimate: .*'clamp' or 'residual'"),
        ("dwise", {"aging": "soon"}, "dwise: aging: .*valid number"),
        ("dwise", {"aging": 0}, "aging must be positive, not 0"),
        ("dwise", {"aging": float("nan")}, "aging must be positive, not nan"),
        ("dwise", {"unit": "time"}, "unit='time' needs a cost model"),
        ("dwise", {"block_size": 0}, "block_size and prefill_chunk must be at least 1"),
        ("dwise", {"probe": [float("nan")]}, "positive ratios"),
        ("mlfq", {"promote_after": -1}, "promote_after must not be negative"),
        ("dwise", {"probe": [2, 1]}, "ascending"),
        ("dwise", {"probe": [0, 1]}, "positive"),
        ("mlfq", {"quantum": 0}, "quantum must be at least 1, not 0"),
        ("mlfq", {"growth": 1}, "growth must be at least 2, not 1"),
        ("s3", {"edges": [4, 4]}, "edges must ascend"),
        ("trail", {"preemptible": 1.5}, "preemptible must be between 0 and 1, not 1.5"),
        ("trail", {"rounds_per_token": 0}, "rounds_per_token must be positive, not 0"),
    ],
)
def test_says_what_is_wrong(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_policy(name, options)


def test_misspelt_literals_are_refused_without_the_registry_too() -> None:
    with pytest.raises(ValueError, match="unit must be one of rounds, time"):
        Dwise(unit="ms")  # type: ignore[arg-type]
