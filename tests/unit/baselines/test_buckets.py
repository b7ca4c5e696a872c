from __future__ import annotations

from bisect import bisect_left

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dwise_predict.baselines.buckets import Buckets
from dwise_predict.baselines.s3 import grown
from dwise_predict.scheduling.policies import S3 as Policy
from dwise_predict.scheduling.policies import Clock
from dwise_predict.scheduling.state import RequestState


@given(st.integers(2, 12), st.integers(2, 600), st.integers(0, 700))
def test_every_length_lies_in_its_bucket(count: int, limit: int, tokens: int) -> None:
    buckets = Buckets(count, limit)
    index = int(buckets.index(torch.tensor([tokens])))
    # Exactly, in whole numbers: bucket i holds i * limit < tokens * count <= (i + 1) * limit.
    inside = [i for i in range(count) if i * limit < tokens * count <= (i + 1) * limit] or (
        [0] if tokens == 0 else [count - 1]
    )
    near_an_edge = min(tokens * count % limit, -(tokens * count) % limit) == 0
    assert index in ([*inside, inside[0] + 1] if near_an_edge else inside)
    assert float(buckets.upper[-1]) == pytest.approx(limit)


def test_the_paper_s_buckets_end_in_their_upper_ends() -> None:
    buckets = Buckets(10, 2560)
    assert buckets.index(torch.tensor([0, 1, 256, 257, 512, 2304, 2305, 2560, 9999])).tolist() == [
        0, 0, 0, 1, 1, 8, 9, 9, 9
    ]  # fmt: skip
    assert buckets.upper.tolist() == [256.0 * i for i in range(1, 11)]
    assert buckets.middle.tolist() == [256.0 * i + 128 for i in range(10)]


@pytest.mark.parametrize("limit", [96, 100, 256, 2048])
def test_the_policy_ranks_allocations_by_bucket(limit: int) -> None:
    buckets = Buckets(10, limit)
    policy = Policy(edges=tuple(buckets.upper[:-1].tolist()))
    ranks = []
    for allocated in buckets.upper.tolist():
        state = RequestState(
            request_id="r",
            arrival_s=0.0,
            prompt_tokens=8,
            prompt_blocks=1,
            budget_tokens=limit,
            prefill_left=1,
            estimate=allocated,
        )
        ranks.append(policy.priority(state, Clock()))
        assert ranks[-1] == bisect_left(policy.edges, allocated)
    assert ranks == list(range(10))


@given(st.floats(1, 300), st.integers(0, 5000))
def test_an_allocation_is_doubled_until_it_leaves_room(allocated: float, committed: int) -> None:
    larger = grown(allocated, committed)
    assert larger > committed
    assert larger == allocated or larger / 2 <= committed
    assert larger / allocated == 2 ** round(torch.log2(torch.tensor(larger / allocated)).item())
