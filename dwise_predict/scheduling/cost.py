"""What a round costs in time: the linear model that simulator and time-ranked policies share."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class RoundCost:
    """``wall_ms = base_ms + slot_ms * slots + kv_ms * kv_tokens + resident_ms * residents``.

    ``kv_tokens`` are the cached tokens that the round's slots attend to, summed over slots: the
    part that makes a block after 10,000 prompt tokens dearer than one after 100. ``resident_ms``
    is for engines whose host work in a round grows with all residents.
    """

    base_ms: float
    slot_ms: float
    kv_ms: float
    resident_ms: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not 0 <= value < math.inf:
                raise ValueError(f"{field.name} must be a number of at least 0, not {value}")

    def round_ms(self, slots: float, kv_tokens: float, residents: float = 0.0) -> float:
        """Time of one round in ms."""
        marginal = self.slot_ms * slots + self.kv_ms * kv_tokens
        return self.base_ms + marginal + self.resident_ms * residents

    def block_ms(self, kv_tokens: float) -> float:
        """What one slot after ``kv_tokens`` cached tokens adds to a round, in ms."""
        return self.slot_ms + self.kv_ms * kv_tokens
