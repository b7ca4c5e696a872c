"""First come, first served: SGLang's default order."""

from __future__ import annotations

from dataclasses import dataclass

from dwise_predict.scheduling.policies.base import Clock, Policy
from dwise_predict.scheduling.state import RequestState


@dataclass(frozen=True)
class Fcfs(Policy):
    """In order of arrival."""

    def priority(self, state: RequestState, clock: Clock) -> float:
        """All alike: the arrival decides."""
        return 0.0
