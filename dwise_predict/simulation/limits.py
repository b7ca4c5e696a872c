"""What a simulation may ask for, so that nothing runs for hours or counts with infinities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dwise_predict.errors import SimulationError

if TYPE_CHECKING:
    from dwise_predict.scheduling import RoundCost

MAX_REQUESTS = 1_000_000
"""Most requests of a workload."""

MAX_BLOCKS = 200_000_000
"""Most blocks that a workload runs, prompt chunks and denoising rounds together: some minutes."""

MAX_ROUNDS = 20_000_000
"""Most rounds that a workload needs at least: about 4 GB of memory for what they held."""

MAX_SLOTS = 65_536
"""Most slots, and most residents for each of them."""

MAX_KV_TOKENS = 10**12
"""Largest KV pool, in tokens."""

MAX_PREFILL_CHUNK = 1_000_000
"""Most blocks of a prompt that are processed together, unless whole prompts are."""

MAX_ARRIVAL_S = 1e9
"""Latest arrival in seconds (32 years), up to which a double tells microseconds apart."""

MIN_ROUND_MS = 1e-3
"""Shortest round with one slot and nothing cached."""

MAX_COST_MS = 1e6
"""Largest part of a round's cost."""


def check_cost(cost: RoundCost) -> None:
    """Raise SimulationError when rounds of that cost take too little time or too much."""
    parts = (cost.base_ms, cost.slot_ms, cost.kv_ms, cost.resident_ms)
    if max(parts) > MAX_COST_MS:
        raise SimulationError(f"no part of a round's cost may be above {MAX_COST_MS:,.0f} ms")
    if cost.base_ms + cost.slot_ms < MIN_ROUND_MS:
        raise SimulationError(
            f"BASE and SLOT of a round's cost must come to {MIN_ROUND_MS} ms at least"
        )


def check_arrivals(last_s: float) -> None:
    """Raise SimulationError when the last arrival, in seconds after the first, is too late."""
    if not last_s <= MAX_ARRIVAL_S:
        raise SimulationError(
            f"the last request arrives {last_s:.3g} s after the first, more than "
            f"{MAX_ARRIVAL_S:,.0f} s"
        )


def check_size(ids: Sequence[str], work: Sequence[int], slots: int) -> None:
    """Raise SimulationError when requests need more rounds or blocks than can be simulated.

    Args:
        ids: of the requests, for the message.
        work: prompt chunks and denoising rounds of each.
        slots: blocks that share a round.
    """
    largest, total = max(work), sum(work)
    if largest > MAX_ROUNDS:
        raise SimulationError(
            f"request {ids[work.index(largest)]!r} needs {largest:,} rounds for its prompt and "
            f"output; at most {MAX_ROUNDS:,} can be simulated"
        )
    if total > MAX_BLOCKS or math.ceil(total / slots) > MAX_ROUNDS:
        raise SimulationError(
            f"the requests have {total:,} blocks to run, {math.ceil(total / slots):,} rounds or "
            f"more; at most {MAX_BLOCKS:,} blocks and {MAX_ROUNDS:,} rounds can be simulated: "
            "take fewer requests"
        )
