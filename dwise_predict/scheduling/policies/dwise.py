"""DWISE: least remaining work first (paper Section 4), and what goes beyond the paper."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from dwise_predict.scheduling.cost import RoundCost
from dwise_predict.scheduling.policies.base import Clock, Policy
from dwise_predict.scheduling.state import RequestState


@dataclass(frozen=True)
class Dwise(Policy):
    """Preemptive shortest remaining work, R = P + r̂ (Eq. 1, Algorithm 1).

    The defaults are the paper's: r̂ is the admission estimate, replaced once by the refined one,
    falls by one per own denoising round and is clamped at zero. The oracle is the same policy
    with true rounds as admission estimates.

    Options beyond the paper:

    - ``estimate="residual"``: r̂ follows the curve that comes with ``Estimated`` (its mean residual
      or its Gittins index by rounds done since) instead of falling by one and stopping at zero.
      Requests without a curve keep the clamp.
    - ``unit="time"``: remaining milliseconds by ``cost`` instead of remaining rounds, for blocks
      of ``block_size`` tokens: a block that attends to many cached tokens counts more, and so does
      a prompt chunk of ``prefill_chunk`` blocks where the engine processes several together.
    - ``probe``: quantiles, ascending, of true over estimated rounds at admission. A request
      before its first denoising round is ranked by the Gittins index of "run that round, then
      go on only if it turns out short" (:func:`probe_index`), which favours uncertain requests.
    - ``aging``: a request is overdue when it has been here for ``aging`` times its own
      estimated work, in rounds.
    """

    estimate: Literal["clamp", "residual"] = "clamp"
    unit: Literal["rounds", "time"] = "rounds"
    cost: RoundCost | None = None
    block_size: int = 1
    prefill_chunk: int = 1
    probe: tuple[float, ...] = ()
    aging: float | None = None

    preemptive = True

    def __post_init__(self) -> None:
        for name, valid in (("estimate", ("clamp", "residual")), ("unit", ("rounds", "time"))):
            if getattr(self, name) not in valid:
                raise ValueError(f"{name} must be one of {', '.join(valid)}")
        if self.unit == "time" and self.cost is None:
            raise ValueError("unit='time' needs a cost model")
        if list(self.probe) != sorted(self.probe) or not all(0 < r < math.inf for r in self.probe):
            raise ValueError("probe must hold positive ratios in ascending order")
        if self.aging is not None and not self.aging > 0:
            raise ValueError(f"aging must be positive, not {self.aging}")
        if self.block_size < 1 or self.prefill_chunk < 1:
            raise ValueError("block_size and prefill_chunk must be at least 1")

    def rounds_left(self, state: RequestState) -> float:
        """Remaining denoising rounds r̂ as estimated now."""
        elapsed = state.rounds - state.estimated_at
        if state.residual is not None and self.estimate == "residual":
            return state.residual[min(elapsed, len(state.residual) - 1)]
        left = state.estimate - elapsed
        return left if left > 0.0 else 0.0

    def priority(self, state: RequestState, clock: Clock) -> float:
        """Remaining work: rounds, or ms with ``unit="time"``."""
        rounds_left = self.rounds_left(state)
        if self.unit == "rounds" and not self.probe:
            return state.prefill_left + rounds_left
        prefill, per_round = float(state.prefill_left), 1.0
        if self.cost is not None and self.unit == "time":
            prefill = self._prefill_ms(self.cost, state)
            per_round = self.cost.block_ms(state.prompt_tokens)
        if self.probe and state.rounds == 0:
            return probe_index(prefill, rounds_left, per_round, self.probe)
        return prefill + rounds_left * per_round

    def priorities(self, states: Iterable[RequestState], clock: Clock) -> list[float]:
        """Those of the paper's policy without a call for each request."""
        if self.unit != "rounds" or self.probe or self.estimate != "clamp":
            return super().priorities(states, clock)
        return [
            state.prefill_left
            + (
                left
                if (left := state.estimate - (state.rounds - state.estimated_at)) > 0.0
                else 0.0
            )
            for state in states
        ]

    def patience(self, state: RequestState) -> float | None:
        """``aging`` times the total work as estimated at admission or refinement."""
        if self.aging is None:
            return None
        return self.aging * (state.prompt_blocks + state.estimated_at + state.estimate)

    def _prefill_ms(self, cost: RoundCost, state: RequestState) -> float:
        left = state.prefill_left
        done = state.prompt_blocks - left
        attended = left * done + left * (left - 1) / 2  # in chunks: the i-th sees i before it
        chunk_tokens = self.prefill_chunk * self.block_size
        return left * self.prefill_chunk * cost.slot_ms + cost.kv_ms * attended * chunk_tokens


def probe_index(
    prefill: float, estimate: float, per_round: float, ratios: tuple[float, ...]
) -> float:
    """Gittins index of a request whose first denoising round reveals its rounds.

    The true rounds are one of ``estimate * ratios``, equally likely. The request first takes
    ``prefill`` and one round; after it, it is continued only if it is among the j shortest. The
    index is the best ratio over j of expected work to the chance of completion (Gittins, Glazebrook
    and Weber, "Multi-armed Bandit Allocation Indices", 2011, Section 3.5). With one ratio of 1
    it is the remaining work.

    Args:
        prefill: work before the first denoising round.
        estimate: estimated denoising rounds.
        per_round: work of one denoising round, in the unit of ``prefill``.
        ratios: quantiles of true over estimated rounds, ascending.
    """
    best, spent, n = float("inf"), 0.0, len(ratios)
    first = prefill + per_round
    for j, ratio in enumerate(ratios, start=1):
        spent += max(estimate * ratio - 1.0, 0.0) * per_round
        best = min(best, (first + spent / n) * n / j)
    return best
