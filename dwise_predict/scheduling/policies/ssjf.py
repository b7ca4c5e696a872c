"""SSJF: speculative shortest job first."""

from __future__ import annotations

from dataclasses import dataclass

from dwise_predict.scheduling.policies.base import Clock, Policy
from dwise_predict.scheduling.state import RequestState


@dataclass(frozen=True)
class Ssjf(Policy):
    """By predicted output tokens, estimated once at admission (Qiu et al., 2024)."""

    def priority(self, state: RequestState, clock: Clock) -> float:
        """Predicted output tokens."""
        return state.estimate
