"""MLFQ: the skip-join multi-level feedback queue of FastServe."""

from __future__ import annotations

from dataclasses import dataclass

from dwise_predict.scheduling.policies.base import Clock, Policy
from dwise_predict.scheduling.state import RequestState


@dataclass(frozen=True)
class Mlfq(Policy):
    """Preemptive multi-level feedback queue of FastServe (Wu et al., 2023), in blocks of service.

    Level l has a quantum of ``quantum * growth**l`` blocks. A request is demoted by one level
    when it has used up the quantum of its level. ``promote_after`` rounds after its arrival it
    goes to the front (FastServe's starvation prevention); None switches that off.

    FastServe lets a request skip the levels whose quantum its first iteration would overrun. A
    dLLM's first iteration is one block for every prompt, so everybody joins level 0; with
    ``skip_join`` the whole prompt counts as the first iteration instead.
    """

    quantum: int = 4
    growth: int = 2
    levels: int = 8
    promote_after: int | None = None
    skip_join: bool = False

    preemptive = True

    def __post_init__(self) -> None:
        for name in ("quantum", "levels"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.growth < 2:
            raise ValueError(f"growth must be at least 2, not {self.growth}")
        if self.promote_after is not None and self.promote_after < 0:
            raise ValueError(f"promote_after must not be negative, not {self.promote_after}")

    def level(self, state: RequestState) -> int:
        """Current queue of the request; 0 is served first."""
        level, size, last = 0, self.quantum, self.levels - 1
        while self.skip_join and size < state.prompt_blocks and level < last:
            level, size = level + 1, size * self.growth
        used_up = size
        while state.attained >= used_up and level < last:
            level, size = level + 1, size * self.growth
            used_up += size
        return level

    def priority(self, state: RequestState, clock: Clock) -> float:
        """The level."""
        return float(self.level(state))

    def patience(self, state: RequestState) -> float | None:
        """``promote_after``."""
        return self.promote_after
