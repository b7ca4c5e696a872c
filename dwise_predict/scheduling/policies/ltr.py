"""LTR: learning to rank."""

from __future__ import annotations

from dataclasses import dataclass

from dwise_predict.scheduling.policies.base import Clock, Policy
from dwise_predict.scheduling.state import RequestState


@dataclass(frozen=True)
class Ltr(Policy):
    """By a learned score that orders but has no unit (Fu et al., 2024)."""

    def priority(self, state: RequestState, clock: Clock) -> float:
        """The score."""
        return state.estimate
