"""What is asked of many requests at once is what is asked of each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dwise_predict.scheduling import make_policy
from dwise_predict.scheduling.policies.base import Clock
from dwise_predict.scheduling.state import RequestState

REQUESTS = st.builds(
    RequestState,
    request_id=st.just("r"),
    arrival_s=st.just(0.0),
    prompt_tokens=st.just(100),
    prompt_blocks=st.just(12),
    budget_tokens=st.just(64),
    prefill_left=st.integers(0, 12),
    estimate=st.floats(-10, 1e6),
    rounds=st.integers(0, 300),
    estimated_at=st.sampled_from([0, 1]),
    residual=st.none() | st.lists(st.floats(0, 100), min_size=1, max_size=5),
)


@pytest.mark.parametrize(
    ("policy", "options"),
    [("dwise", {}), ("dwise", {"estimate": "residual"}), ("dwise", {"probe": (0.5, 2.0)}),
     ("fcfs", {}), ("mlfq", {}), ("hrrn", {}), ("trail", {}), ("s3", {})],
)  # fmt: skip
@given(states=st.lists(REQUESTS, max_size=20))
def test_priorities_are_the_priority_of_each(
    policy: str, options: dict[str, object], states: list[RequestState]
) -> None:
    made, clock = make_policy(policy, options), Clock(round=400, prompt_blocks=900)
    assert made.priorities(states, clock) == [made.priority(state, clock) for state in states]
