"""Estimates as good as the paper's predictors, without their hidden states.

A category's estimates get the rank correlation with true rounds inside that category that Table 17
prints. All else (the correlation over all requests, what a schedule makes of it) follows.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dwise_predict.simulation.predictions import Reestimate
from dwise_predict.simulation.workload import FloatArray, SimulatedWorkload

ADMISSION_SPEARMAN = {
    "hard_multiple_choice": 0.200,
    "multiple_choice": 0.237,
    "code": 0.251,
    "math": 0.259,
    "multilingual_math": 0.087,
    "long_context": 0.338,
    "chat": 0.039,
    "instruction": 0.053,
}
"""Table 17, admission, category in training."""

REFINED_SPEARMAN = {
    "hard_multiple_choice": 0.481,
    "multiple_choice": 0.686,
    "code": 0.657,
    "math": 0.540,
    "multilingual_math": 0.755,
    "long_context": 0.352,
    "chat": 0.682,
    "instruction": 0.658,
}
"""Table 17, refined, category in training."""

ADMISSION_SPREAD = {
    "chat": 0.8,
    "instruction": 0.4,
    "code": 0.2,
    "math": 0.25,
    "multilingual_math": 0.3,
    "multiple_choice": 1.0,
    "hard_multiple_choice": 0.65,
    "long_context": 0.25,
}
"""Standard deviation of the log of a category's admission estimates. Chosen: prompts of chats look
like anything, those of code and mathematics like themselves."""

SHARED = ("chat", "instruction", "code", "math", "multilingual_math")
"""Categories that a predictor from three prompt sizes tells apart badly."""

SHRINKAGE = 0.7
"""How much of a shared category's distance from their common mean an admission estimate keeps;
chosen so that the correlation over all requests is near the 0.714 to 0.740 of the paper."""

ADMISSION_RATIO, REFINED_RATIO, RAW_RATIO = 1.03, 1.00, 1.16
"""Median predicted over actual rounds (Table 5)."""


LEAST_REPEATED = 2.0
"""Rounds; fitted to the 4.9% of requests that reach zero with an estimate every four (Table 6)."""


def admission_estimates(
    workload: SimulatedWorkload, seed: int, within: float | None = None
) -> FloatArray:
    """Total denoising rounds as estimated from the prompt, float64 [N].

    ``within`` replaces the rank correlation inside every category: a better predictor.
    """
    rng = np.random.default_rng([seed, 1])
    rounds, categories = _rounds_and_categories(workload)
    shared = np.isin(categories, SHARED)
    common = float(np.log(rounds[shared]).mean())
    logs = np.empty(len(rounds))
    for name, spread in ADMISSION_SPREAD.items():
        members = categories == name
        centre = float(np.log(rounds[members]).mean())
        if name in SHARED:
            centre = common + SHRINKAGE * (centre - common)
        correlation = ADMISSION_SPEARMAN[name] if within is None else within
        logs[members] = centre + spread * _correlated(rounds[members], correlation, rng)
    # A regression tree predicts no more than a leaf's mean.
    estimates = np.exp(np.minimum(logs, np.log(np.quantile(rounds, 0.92))))
    scaled: FloatArray = estimates * ADMISSION_RATIO / float(np.median(estimates / rounds))
    return scaled


def refined_estimates(workload: SimulatedWorkload, seed: int) -> FloatArray:
    """Remaining rounds after the first one as estimated from its hidden states, float64 [N]."""
    rng = np.random.default_rng([seed, 2])
    rounds, categories = _rounds_and_categories(workload)
    logs = np.empty(len(rounds))
    for name, spearman in REFINED_SPEARMAN.items():
        members = categories == name
        own = np.log(rounds[members])
        # A conditional mean varies less than what it predicts, by the correlation.
        logs[members] = own.mean() + own.std() * _pearson(spearman) * _correlated(
            rounds[members], spearman, rng
        )
    estimates = np.exp(np.minimum(logs, np.log(rounds.max())))
    estimates *= REFINED_RATIO / float(np.median(estimates / rounds))
    remaining: FloatArray = np.maximum(estimates - 1.0, 0.01)
    return remaining


def repeated_estimates(
    workload: SimulatedWorkload, refined: FloatArray, every: str, noise: float, seed: int
) -> Reestimate:
    """Estimates at every ``"block"``, ``"4 rounds"`` or ``"round"`` (Table 6).

    The first is ``refined``. Its relative error, which is the request's, fades with what is left;
    later ones add independent relative errors of standard deviation ``noise``, which is what makes
    requests overtake each other again and again. They are at least ``LEAST_REPEATED``, because the
    mean of a distribution over remaining rounds stays away from zero until the end, and after a
    block at least a quarter more than a block of the request takes, because another has begun.
    """
    total = workload.rounds.astype(np.float64)
    error = np.log((refined + 1.0) / total)
    jitter = np.random.default_rng([seed, 3]).standard_normal((len(total), int(total.max()) + 1))
    blocks = np.array([len(blocks) for blocks in workload.rounds_per_block])
    after_block = (1.25 * total / blocks).tolist()
    period = {"block": 0, "4 rounds": 4, "round": 1}[every]

    def reestimate(index: int, rounds: int, block_done: bool) -> float | None:
        if rounds == 1:
            return float(refined[index])
        if not (block_done if period == 0 else (rounds - 1) % period == 0):
            return None
        remaining = max(float(total[index]) - rounds, 0.5)
        kept = float(error[index]) * remaining / float(total[index])
        estimate = remaining * float(np.exp(kept + noise * jitter[index, rounds]))
        return max(estimate, after_block[index] if block_done else LEAST_REPEATED)

    return reestimate


def _rounds_and_categories(workload: SimulatedWorkload) -> tuple[FloatArray, npt.NDArray[np.str_]]:
    return workload.rounds.astype(np.float64), np.array(workload.categories)


def _pearson(spearman: float) -> float:
    """Correlation of two normal variables with the given rank correlation."""
    return float(2 * np.sin(np.pi * spearman / 6))


def _correlated(values: FloatArray, spearman: float, rng: np.random.Generator) -> FloatArray:
    """Standard normal scores whose rank correlation with ``values`` is about ``spearman``."""
    rho = _pearson(spearman)
    noise = rng.standard_normal(len(values))
    scores: FloatArray = rho * _normal_scores(values, rng) + np.sqrt(1 - rho * rho) * noise
    return scores


def _normal_scores(values: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Values replaced by ordered standard normal draws; ties in random order."""
    order = np.lexsort((rng.random(len(values)), values))
    scores = np.empty(len(values))
    scores[order] = np.sort(rng.standard_normal(len(values)))
    return scores
