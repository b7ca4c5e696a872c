"""The five models of the paper as the simulator sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from dwise_predict.scheduling import FormerName, ResidencyLimits, RoundCost
from dwise_predict.simulation.paper.reference import ModelShape


@dataclass(frozen=True, slots=True)
class ModelSetup:
    """Workload, slots, memory, time and arrivals of one model.

    ``kv_tokens`` is the size of the KV pool, ``rate`` the arrival rate of burst+Poisson in
    requests/s, ``trail_ms`` what TRAIL's own predictor adds to a round, ``former`` the batch former
    that DWISE uses, ``held_rows`` whether the engine has that fault of SGLang 0.5.20.
    """

    shape: ModelShape
    cost: RoundCost
    kv_tokens: int
    rate: float
    slots: int = 128
    trail_ms: float = 0.0
    former: FormerName = "mixed_phase"
    held_rows: bool = True

    def limits(self, multiplier: int = 8) -> ResidencyLimits:
        """Residents and KV as DWISE limits them (Section 6.1)."""
        return ResidencyLimits(self.slots, self.shape.block_size, multiplier, self.kv_tokens)


LLADA_COST = RoundCost(base_ms=9.43, slot_ms=0.426, kv_ms=0.000968, resident_ms=0.00282)
"""What :func:`~dwise_predict.simulation.paper.derivation.derive_llada_cost` finds, rounded."""

LLADA_KV_TOKENS = 1_100_000
"""The paper gives no size for LLaDA2.0 and 2.1; fitted to DWISE's 2,819 rounds (Table 3)."""

LLADA_TRAIL_MS = 0.5
"""Fitted to TRAIL's published throughput, burst."""

SDAR_COST = RoundCost(base_ms=2.0, slot_ms=0.0, kv_ms=0.0072)
"""From SGLang's and DWISE's throughput, 0.24 and 0.25 requests/s: 474,851 against 15,262 rounds in
almost the same time, so nearly all of it is attention to cached tokens. The published digits allow
a base between 0 and 5 ms."""

SDAR_KV_TOKENS = 480_000
"""65.9 GiB at 144 KiB a token: 36 layers, 8 KV heads of 128, bfloat16."""

DIFFUSION_GEMMA_COST = RoundCost(base_ms=30.2, slot_ms=9.03, kv_ms=0.0)
"""From SGLang's and DWISE's throughput, burst: 6.22 and 6.07 requests/s."""

SETUPS: Mapping[str, ModelSetup] = MappingProxyType(
    {
        "LLaDA2.0-mini": ModelSetup(
            ModelShape(step_factor=3.1, open_factor=0.57),
            LLADA_COST,
            LLADA_KV_TOKENS,
            16.0,
            trail_ms=LLADA_TRAIL_MS,
        ),
        "LLaDA2.1-mini": ModelSetup(
            ModelShape(), LLADA_COST, LLADA_KV_TOKENS, 16.0, trail_ms=LLADA_TRAIL_MS
        ),
        "LLaDA2.2-mini": ModelSetup(
            ModelShape(step_factor=1.13, open_factor=1.2),
            LLADA_COST,
            LLADA_KV_TOKENS,
            16.0,
            trail_ms=LLADA_TRAIL_MS,
        ),
        "SDAR-8B": ModelSetup(
            ModelShape(
                block_size=4, step_factor=3.3, open_factor=0.55, full_factor=0.4, max_steps=4
            ),
            SDAR_COST,
            SDAR_KV_TOKENS,
            0.85,
        ),
        "DiffusionGemma": ModelSetup(
            ModelShape(
                block_size=256,
                step_factor=0.28,
                open_factor=0.32,
                spread_factor=2.0,
                max_steps=47,
                prefill_chunk=None,
                canvas=True,
            ),
            DIFFUSION_GEMMA_COST,
            60_000,
            8.0,
            slots=16,
            former="single_phase",
            held_rows=False,
        ),
    }
)
