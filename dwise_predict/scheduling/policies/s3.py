"""S³: predicted length buckets."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from dwise_predict.scheduling.policies.base import Clock, Policy
from dwise_predict.scheduling.state import RequestState


@dataclass(frozen=True)
class S3(Policy):
    """By bucket of predicted output tokens, in a bucket by arrival (Jin et al., 2023).

    ``edges`` are the upper ends of the buckets, ascending; longer requests share one more bucket.
    """

    edges: tuple[float, ...] = (32.0, 64.0, 128.0, 192.0)

    def __post_init__(self) -> None:
        if list(self.edges) != sorted(set(self.edges)):
            raise ValueError(f"edges must ascend, not {self.edges}")

    def priority(self, state: RequestState, clock: Clock) -> float:
        """Number of the bucket."""
        return float(bisect_left(self.edges, state.estimate))
