"""TRAIL: remaining output length, re-estimated while the request runs."""

from __future__ import annotations

from dataclasses import dataclass

from dwise_predict.scheduling.policies.base import Clock, Policy
from dwise_predict.scheduling.state import RequestState


@dataclass(frozen=True)
class Trail(Policy):
    """Least predicted remaining output, with limited preemption (Shahout et al., 2024).

    The newest estimate of remaining output tokens decides. A request that is beyond the share
    ``preemptible`` (TRAIL's c) of the output tokens predicted at its arrival runs to its end,
    whatever later estimates say: ``rounds_per_token`` turns tokens into rounds for that test,
    because rounds are what a scheduler sees.
    """

    preemptible: float = 0.8
    rounds_per_token: float = 1.0

    preemptive = True

    def __post_init__(self) -> None:
        if not 0 <= self.preemptible <= 1:
            raise ValueError(f"preemptible must be between 0 and 1, not {self.preemptible}")
        if self.rounds_per_token <= 0:
            raise ValueError(f"rounds_per_token must be positive, not {self.rounds_per_token}")

    def priority(self, state: RequestState, clock: Clock) -> float:
        """Remaining output tokens; before all of these once preemption is ruled out."""
        predicted = max(state.first_estimate, 1.0) * self.rounds_per_token
        if state.rounds > self.preemptible * predicted:
            return -1.0
        return state.estimate
