"""What every policy says about a request."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from dwise_predict.scheduling.state import RequestState


@dataclass(slots=True)
class Clock:
    """Progress that is the same on every rank: rounds planned and prompt blocks processed."""

    round: int = 0
    prompt_blocks: int = 0


class Policy(ABC):
    """Orders requests; which of them share a round is the batch former's business.

    Decisions use the state and the clock only: no wall time and no randomness, so that all
    tensor-parallel ranks agree.
    """

    preemptive: ClassVar[bool] = False
    """Whether it displaces residents: the prefill-first former then keeps more than it runs."""

    time_dependent: ClassVar[bool] = False
    """Whether the priority of a request changes while nothing happens to it."""

    @abstractmethod
    def priority(self, state: RequestState, clock: Clock) -> float:
        """Smallest is served first; ties go to the earlier arrival, then the smaller id."""

    def priorities(self, states: Iterable[RequestState], clock: Clock) -> list[float]:
        """:meth:`priority` of each; what is asked of all requests of every round."""
        return [self.priority(state, clock) for state in states]

    def patience(self, state: RequestState) -> float | None:
        """Rounds after its arrival from which the request is overdue; None: never.

        Overdue requests go before all others of their tier, in the order in which they became
        overdue.
        """
        return None
