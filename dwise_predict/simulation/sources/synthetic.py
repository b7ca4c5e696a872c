"""Made-up requests: categories with log-normal rounds and prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dwise_predict.simulation.limits import MAX_REQUESTS
from dwise_predict.simulation.sources.source import Source, facts_table
from dwise_predict.simulation.workload import IntArray
from dwise_predict.work import first_block_masked, output_blocks, prefill_blocks

_MAX_ROUNDS_PER_TOKEN = 1.25
"""No block takes more rounds than it has tokens and a few more; a bound for the log-normal tail."""


@dataclass(frozen=True, slots=True)
class SyntheticCategory:
    """Medians, and standard deviations of the logarithm (``*_spread``)."""

    name: str
    share: float
    rounds: float
    rounds_spread: float
    prompt_tokens: float
    prompt_spread: float
    output_tokens: float
    output_spread: float


DEFAULT_MIX = (
    SyntheticCategory("chat", 0.27, 85, 0.7, 60, 0.9, 230, 0.4),
    SyntheticCategory("instruction", 0.07, 80, 0.7, 70, 0.5, 230, 0.4),
    SyntheticCategory("code", 0.14, 35, 0.6, 150, 0.4, 240, 0.3),
    SyntheticCategory("math", 0.25, 45, 0.5, 110, 0.4, 250, 0.3),
    SyntheticCategory("multiple_choice", 0.15, 8, 0.7, 220, 0.4, 20, 0.8),
    SyntheticCategory("hard_multiple_choice", 0.08, 4, 0.5, 120, 0.4, 8, 0.6),
    SyntheticCategory("long_context", 0.04, 14, 0.4, 10_000, 0.1, 60, 0.3),
)
"""Roughly what the paper describes: most work in open-ended requests, a few very long prompts."""


def synthetic_source(
    n: int,
    seed: int,
    mix: Sequence[SyntheticCategory] = DEFAULT_MIX,
    block_size: int = 32,
    budget_tokens: int = 256,
) -> Source:
    """Draw ``n`` requests of ``mix``; the same arguments give the same requests.

    Rounds are spread at random over the output blocks, at least one each. Raises ValueError when
    ``n`` is not positive or above
    :data:`~dwise_predict.simulation.limits.MAX_REQUESTS`.
    """
    if not 1 <= n <= MAX_REQUESTS:
        raise ValueError(f"n must be between 1 and {MAX_REQUESTS:,}, not {n}")
    rng = np.random.default_rng(seed)
    shares = np.array([category.share for category in mix])
    kind = rng.choice(len(mix), size=n, p=shares / shares.sum())

    def draw(medians: list[float], spreads: list[float]) -> IntArray:
        scatter = np.exp(np.array(spreads)[kind] * rng.normal(size=n))
        drawn: IntArray = np.rint(np.array(medians)[kind] * scatter).astype(np.int64)
        return drawn

    prompt = draw([c.prompt_tokens for c in mix], [c.prompt_spread for c in mix])
    prompt = np.maximum(prompt, 1)
    output = draw([c.output_tokens for c in mix], [c.output_spread for c in mix])
    output = np.clip(output, 1, budget_tokens)
    blocks = np.array(
        [output_blocks(int(p), int(o), block_size) for p, o in zip(prompt, output, strict=True)]
    )
    most = np.maximum(_MAX_ROUNDS_PER_TOKEN * output, blocks).astype(np.int64)
    rounds = draw([c.rounds for c in mix], [c.rounds_spread for c in mix])
    rounds = np.clip(rounds, blocks, most)
    columns = {
        "request_id": [f"synthetic-{i:06}" for i in range(n)],
        "category": [mix[i].name for i in kind],
        "dataset": ["synthetic"] * n,
        "prompt_tokens": prompt,
        "prompt_blocks": [prefill_blocks(int(tokens), block_size) for tokens in prompt],
        "budget_tokens": np.full(n, budget_tokens),
        "output_tokens": output,
        "output_blocks": blocks,
        "rounds": rounds,
        "rounds_per_block": [
            (1 + rng.multinomial(total - parts, np.full(parts, 1 / parts))).tolist()
            for total, parts in zip(rounds.tolist(), blocks.tolist(), strict=True)
        ],
        "first_block_masked": [first_block_masked(int(tokens), block_size) for tokens in prompt],
        "finish_reason": np.where(output == budget_tokens, "budget", "eos").tolist(),
    }
    return Source(f"{n} synthetic requests", block_size, facts_table(columns, n))
