"""Who may hold KV: the resident cap and the worst-case reservation (paper Sections 4.3, 6.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dwise_predict.scheduling.state import RequestState
from dwise_predict.work import reserved_blocks


@dataclass(frozen=True, slots=True)
class ResidencyLimits:
    """Limits on residents.

    At most ``multiplier * slots`` residents, and the sum of their worst-case reservations
    (prompt + budget in whole blocks, plus ``slack_blocks``) is at most ``kv_share`` of
    ``kv_tokens``, so that every resident can finish. ``kv_tokens=None``: no limit on KV.
    """

    slots: int
    block_size: int
    multiplier: int = 8
    kv_tokens: int | None = None
    kv_share: float = 0.9
    slack_blocks: int = 2

    def __post_init__(self) -> None:
        for name in ("slots", "block_size", "multiplier"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not 0 < self.kv_share <= 1:
            raise ValueError(f"kv_share must be above 0 and at most 1, not {self.kv_share}")
        if self.slack_blocks < 0:
            raise ValueError(f"slack_blocks must not be negative, not {self.slack_blocks}")

    @property
    def cap(self) -> int:
        """Most residents: k·B."""
        return self.multiplier * self.slots

    @property
    def pool_blocks(self) -> float:
        """Whole blocks that reservations may take together."""
        if self.kv_tokens is None:
            return math.inf
        return math.floor(self.kv_share * self.kv_tokens / self.block_size)

    def reservation(self, prompt_tokens: int, budget_tokens: int) -> int:
        """Blocks reserved for one resident."""
        return reserved_blocks(prompt_tokens, budget_tokens, self.block_size, self.slack_blocks)


class KvReservations:
    """The residents and what they have reserved."""

    def __init__(self, limits: ResidencyLimits) -> None:
        self._limits = limits
        self._blocks: dict[str, int] = {}
        self._free = limits.pool_blocks

    def __len__(self) -> int:
        return len(self._blocks)

    def __contains__(self, request_id: object) -> bool:
        return request_id in self._blocks

    def check(self, state: RequestState) -> None:
        """Raise ValueError when the request's reservation does not fit even an empty pool."""
        need = self._limits.reservation(state.prompt_tokens, state.budget_tokens)
        if need > self._limits.pool_blocks:
            raise ValueError(
                f"request {state.request_id!r} reserves {need} blocks of KV, more than the "
                f"{self._limits.pool_blocks} that can be reserved"
            )

    def reserve(self, state: RequestState) -> bool:
        """Reserve for a request if it fits; says whether it did."""
        need = self._limits.reservation(state.prompt_tokens, state.budget_tokens)
        if need > self._free:
            return False
        self._free -= need
        self._blocks[state.request_id] = need
        return True

    def release(self, state: RequestState) -> None:
        """Give a resident's reservation back."""
        self._free += self._blocks.pop(state.request_id)
