"""Scores of the learned baselines, which all rank by output tokens (Appendix 11).

What the paper says of them: on the requests other than multiple choice the scores are uncorrelated
with work; multiple choice comes first; code and mathematics, which emit more tokens, come after
chat and instructions; long-context requests, whose outputs are short, rank ahead of most
requests but behind multiple choice (31st to 38th percentile).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dwise_predict.simulation.predictions import Reestimate
from dwise_predict.simulation.workload import FloatArray, SimulatedWorkload

CHOICE = ("multiple_choice", "hard_multiple_choice")
LONG_OUTPUT = ("code", "math", "multilingual_math")


@dataclass(frozen=True, slots=True)
class LengthScore:
    """Predicted output tokens: a mean by kind of request, a share ``signal`` of how the true output
    differs from its category's mean, and noise of standard deviation ``noise`` tokens."""

    choice: float = 31.0
    open_ended: float = 215.0
    long_output: float = 242.0
    long_context: float = 190.0
    signal: float = 0.3
    noise: float = 30.0


SSJF = LengthScore(long_output=250.0, signal=0.5, noise=20.0)
"""Fitted to the 842 s that code and mathematics then wait."""
LTR = LengthScore(long_output=260.0, noise=15.0)
"""Fitted to their 925 s."""
S3 = LengthScore(long_context=215.0, signal=0.0, noise=0.0)
"""Two buckets matter: multiple choice, and everything else in order of arrival."""

TRAIL = LengthScore(choice=150.0, long_output=235.0, long_context=228.0, signal=0.0, noise=60.0)
"""Before the first estimate from the model itself TRAIL knows little. Fitted to Table 4's 198.5 s
(mixed-phase, burst)."""

SDAR_S3 = LengthScore(long_context=100.0, noise=10.0)
SDAR_TRAIL = LengthScore(long_context=100.0, signal=0.0, noise=40.0)
"""On SDAR-8B every length ranker puts long-context requests, with their 44 output tokens, ahead of
most (Appendix 11)."""


def length_scores(workload: SimulatedWorkload, score: LengthScore, seed: int) -> FloatArray:
    """Predicted output tokens, float64 [N]."""
    rng = np.random.default_rng([seed, 4])
    categories = np.array(workload.categories)
    tokens = workload.output_tokens.astype(np.float64)
    centre = np.full(len(tokens), score.open_ended)
    centre[np.isin(categories, LONG_OUTPUT)] = score.long_output
    centre[categories == "long_context"] = score.long_context
    choice = np.isin(categories, CHOICE)
    centre[choice] = score.choice
    means = {name: tokens[categories == name].mean() for name in set(workload.categories)}
    own = tokens - np.array([means[name] for name in workload.categories])
    noise = score.noise * rng.standard_normal(len(tokens))
    return np.where(choice, centre + noise / 6, centre + score.signal * own + noise)


def remaining_tokens(workload: SimulatedWorkload, noise: float, seed: int) -> Reestimate:
    """TRAIL's estimate after every denoising round: remaining output tokens with a relative error
    of standard deviation ``noise`` that stays with the request."""
    tokens, rounds = workload.output_tokens.tolist(), workload.rounds.tolist()
    error = np.exp(noise * np.random.default_rng([seed, 5]).standard_normal(len(tokens))).tolist()

    def reestimate(index: int, done: int, block_done: bool) -> float | None:
        left: float = max(tokens[index] * (1 - done / rounds[index]), 1.0) * error[index]
        return left

    return reestimate
