"""The reference workload: 4,096 requests like the paper's, from its description alone.

The requests of the paper are not public as labels. Composition is Table 1; the shapes below were
chosen so that the generated requests have what the paper says of LLaDA2.1-mini (see
:data:`FITTED`). The other models change :class:`ModelShape` only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dwise_predict.simulation.workload import SimulatedWorkload

BUDGET_TOKENS = 256


@dataclass(frozen=True, slots=True)
class CategoryShape:
    """One category of requests.

    Prompt tokens are lognormal (``prompt_median``, ``prompt_sigma``). A share ``full`` of the
    outputs uses the whole budget, the others have ``other_tokens`` tokens on average. A block of
    n tokens takes ``steps`` * n denoising steps on average; requests differ by a gamma factor of
    shape ``spread`` (larger: more alike).
    """

    count: int
    prompt_median: float
    prompt_sigma: float
    full: float
    other_tokens: float
    steps: float
    spread: float


CATEGORIES = {
    "chat": CategoryShape(1085, 70, 1.35, 0.69, 115, 0.485, 4.4),
    "instruction": CategoryShape(296, 65, 0.45, 0.69, 115, 0.51, 4.4),
    "code": CategoryShape(592, 125, 0.35, 0.86, 155, 0.143, 6.0),
    "math": CategoryShape(766, 105, 0.35, 0.86, 155, 0.143, 6.0),
    "multilingual_math": CategoryShape(258, 130, 0.30, 0.80, 150, 0.20, 6.0),
    "multiple_choice": CategoryShape(637, 230, 0.40, 0.0, 32, 0.05, 3.0),
    "hard_multiple_choice": CategoryShape(312, 85, 0.30, 0.0, 28, 0.04, 4.0),
    "long_context": CategoryShape(150, 10400, 0.02, 0.0, 44, 0.44, 4.0),
}
"""LLaDA2.1-mini. Counts: Table 1, with MMLU-Pro as ``multiple_choice`` and ARC-Challenge as
``hard_multiple_choice`` (the paper's p99 of 6 s for the latter needs the shorter prompts)."""

OPEN_ENDED = ("chat", "instruction")

FITTED = {
    "rounds p25, p50, p90, max, mean": "Section 3.1, Figure 2: 14, 46, 149, 279, 62",
    "mean rounds of code and math, of chat and instruction": "Section 11: 45 and 115",
    "mean output tokens of the same, of all": "Sections 11 and 12: 242, 215 and 176",
    "share of requests that use the whole budget": "Section 11: 57%",
    "share of (hard) multiple choice in the work": "Section 11: 3.1% of 23% of the requests",
    "prompt blocks of long-context requests": "Section 14: over 300",
    "prompt blocks and denoising rounds in all": "Table 3: rounds times filled slots, 319,000",
}
"""What the shapes of LLaDA2.1-mini were fitted to, and where the paper says it."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """How a model's workload differs from LLaDA2.1-mini's.

    ``step_factor`` scales the denoising steps, ``open_factor`` in addition those of chat and
    instructions, ``token_factor`` the output tokens of requests that do not use the whole budget,
    ``full_factor`` the share of those that do. ``spread_factor`` makes requests of a category more
    alike. ``max_steps`` is the most steps of a block. With
    ``canvas`` the output starts in a block of its own instead of the prompt's last one.
    """

    block_size: int = 32
    step_factor: float = 1.0
    open_factor: float = 1.0
    token_factor: float = 1.0
    full_factor: float = 1.0
    spread_factor: float = 1.0
    max_steps: int = 32
    prefill_chunk: int | None = 1
    canvas: bool = False


def reference_workload(model: ModelShape = ModelShape(), seed: int = 0) -> SimulatedWorkload:
    """4,096 requests in random order; the same for the same model and seed."""
    rng = np.random.default_rng(seed)
    categories: list[str] = []
    prompts: list[int] = []
    outputs: list[int] = []
    rounds: list[tuple[int, ...]] = []
    for name, shape in CATEGORIES.items():
        n = shape.count
        prompt = shape.prompt_median * np.exp(shape.prompt_sigma * rng.standard_normal(n))
        full = rng.random(n) < shape.full * model.full_factor
        other = shape.other_tokens * model.token_factor * rng.gamma(4.0, 0.25, n)
        tokens = np.where(full, BUDGET_TOKENS, np.clip(other, 4, BUDGET_TOKENS - 1)).astype(int)
        factor = model.step_factor * (model.open_factor if name in OPEN_ENDED else 1.0)
        spread = shape.spread * model.spread_factor
        pace = shape.steps * factor * rng.gamma(spread, 1 / spread, n)
        for i in range(n):
            prompt_tokens = int(np.clip(prompt[i], 20, 3000 if name == "chat" else 20000))
            categories.append(name)
            prompts.append(prompt_tokens)
            outputs.append(int(tokens[i]))
            rounds.append(_rounds_per_block(prompt_tokens, int(tokens[i]), pace[i], model, rng))
    order = rng.permutation(len(categories))
    return SimulatedWorkload(
        block_size=model.block_size,
        request_ids=tuple(f"r{place:04d}" for place in range(len(order))),
        categories=tuple(categories[i] for i in order),
        prompt_tokens=np.array(prompts)[order],
        output_tokens=np.array(outputs)[order],
        budget_tokens=np.full(len(order), BUDGET_TOKENS),
        rounds_per_block=tuple(rounds[i] for i in order),
        prefill_chunk=model.prefill_chunk,
    )


def _rounds_per_block(
    prompt_tokens: int, tokens: int, pace: float, model: ModelShape, rng: np.random.Generator
) -> tuple[int, ...]:
    """Steps of every output block and its committing round.

    The first block holds what the prompt leaves free; the last one is denoised whole. A block
    cannot take more steps than it has masked positions.
    """
    size = model.block_size
    masked = size if model.canvas else size - prompt_tokens % size
    blocks = 1 + max(0, -(-(tokens - masked) // size))
    sizes = np.full(blocks, size)
    sizes[0] = masked
    alike = 6.0 * model.spread_factor
    steps = np.rint(pace * sizes * rng.gamma(alike, 1 / alike, blocks))
    limits = np.minimum(sizes, model.max_steps)
    return tuple(int(s) + 1 for s in np.clip(steps, 1, limits))
