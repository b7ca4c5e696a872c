"""Estimates made from the truth: exact, or disturbed until they order as well as wanted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from dwise_predict.errors import SimulationError
from dwise_predict.rank import ranks
from dwise_predict.simulation.predictions import Predictions, Reestimate
from dwise_predict.simulation.workload import FloatArray, IntArray, SimulatedWorkload

Target = Literal["nothing", "rounds", "output_tokens", "output_tokens_left"]
"""What a policy wants to be told: ``output_tokens_left`` is asked for again every round."""

TARGETS: dict[str, Target] = {
    "fcfs": "nothing",
    "hrrn": "nothing",
    "mlfq": "nothing",
    "ssjf": "output_tokens",
    "s3": "output_tokens",
    "ltr": "output_tokens",
    "trail": "output_tokens_left",
    "dwise": "rounds",
    "oracle": "rounds",
    "noisy_oracle": "rounds",
}
"""By policy; LTR's score is any number that orders as output tokens do."""

TOLERANCE = 0.01
"""How far the rank correlation of disturbed estimates may be from what was asked for."""


class Predictor(Protocol):
    """Makes the estimates of a workload."""

    @property
    def name(self) -> str:
        """For people."""
        ...

    def predict(self, workload: SimulatedWorkload, target: Target) -> Predictions:
        """Estimates of ``target``; raises SimulationError when it cannot make them."""
        ...


@dataclass(frozen=True)
class Untold:
    """For policies that need no estimate."""

    name: str = "none"

    def predict(self, workload: SimulatedWorkload, target: Target) -> Predictions:
        """Zeros, if nothing is wanted."""
        if target != "nothing":
            raise SimulationError(f"this policy needs estimates of {target.replace('_', ' ')}")
        return no_predictions(len(workload))


def no_predictions(n: int) -> Predictions:
    """Nothing: every estimate is 0."""
    return Predictions(np.zeros(n))


@dataclass(frozen=True)
class Oracle:
    """The truth."""

    name: str = "oracle"

    def predict(self, workload: SimulatedWorkload, target: Target) -> Predictions:
        """True rounds or output tokens."""
        if target == "rounds":
            return Predictions(workload.rounds.astype(np.float64))
        tokens = workload.output_tokens.astype(np.float64)
        if target == "output_tokens":
            return Predictions(tokens)
        if target == "output_tokens_left":
            return Predictions(tokens, reestimate=tokens_left(workload, np.ones(len(workload))))
        return no_predictions(len(workload))


@dataclass(frozen=True)
class NoisyOracle:
    """The truth, disturbed to Spearman correlations with it.

    ``correlation`` is that of the estimates at admission. With ``refined_correlation`` there is a
    second estimate after the first denoising round (for output tokens: after every round);
    without, admission's is all.
    """

    correlation: float
    refined_correlation: float | None = None
    seed: int = 0

    @property
    def name(self) -> str:
        """With the correlations."""
        later = self.refined_correlation
        refined = "" if later is None else f", refined {later:g}"
        return f"noisy oracle, correlation {self.correlation:g}{refined}"

    def predict(self, workload: SimulatedWorkload, target: Target) -> Predictions:
        """Disturbed rounds or output tokens."""
        if target == "nothing":
            return no_predictions(len(workload))
        truth = workload.rounds if target == "rounds" else workload.output_tokens
        first, second = np.random.default_rng(self.seed).spawn(2)
        admission = disturbed(truth, self.correlation, first)
        later = admission
        if self.refined_correlation is not None:
            later = disturbed(truth, self.refined_correlation, second)
        if target == "output_tokens_left":
            return Predictions(
                admission, reestimate=tokens_left(workload, later / np.maximum(truth, 1))
            )
        if target == "output_tokens" or self.refined_correlation is None:
            return Predictions(admission)
        return Predictions(admission, refined=np.maximum(later - 1, 0))


def disturbed(truth: IntArray, correlation: float, rng: np.random.Generator) -> FloatArray:
    """The values of ``truth`` in another order: estimates that rank with a given Spearman.

    A normal score of each value's rank is mixed with noise, and the sorted true values are dealt
    out in the order of the mixtures, so that estimates have exactly the distribution of the truth.
    The share of noise is found by bisection.

    Args:
        truth: [n], at least two different values.
        correlation: between 0 and 1, of estimates and truth.
        rng: source of the noise.

    Returns:
        float64 [n].

    Raises:
        SimulationError: so few or such equal values cannot have that correlation.
    """
    if not 0 <= correlation <= 1:
        raise SimulationError(f"a correlation lies between 0 and 1, not at {correlation}")
    n = len(truth)
    if n < 2 or np.ptp(truth) == 0:
        raise SimulationError("all requests need the same, so no estimate can order them")
    # Sorting noise along with the truth deals ranks at random among equal values.
    noise = rng.normal(size=n)
    order = np.lexsort((rng.random(n), truth))
    score = np.empty(n)
    score[order] = np.sort(rng.normal(size=n))
    ordered = np.sort(truth).astype(np.float64)
    true_ranks = ranks(truth)

    def deal(share: float) -> FloatArray:
        estimates = np.empty(n)
        mixed = share * score + np.sqrt(1 - share**2) * noise
        estimates[np.argsort(mixed, kind="stable")] = ordered
        return estimates

    def reached(estimates: FloatArray) -> float:
        return float(np.corrcoef(ranks(estimates), true_ranks)[0, 1])

    low, high = -1.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        if reached(deal(middle)) < correlation:
            low = middle
        else:
            high = middle
    found = min((deal(low), deal(high)), key=lambda e: abs(reached(e) - correlation))
    if abs(reached(found) - correlation) > TOLERANCE:
        raise SimulationError(
            f"estimates of {n} requests came to a rank correlation of {reached(found):.3f} at "
            f"most near {correlation}: take more requests, another correlation or seed"
        )
    return found


def tokens_left(workload: SimulatedWorkload, factor: FloatArray) -> Reestimate:
    """Output tokens still to come, times ``factor`` [N], whenever a block was committed."""
    size = workload.block_size
    left: list[float] = workload.output_tokens.astype(np.float64).tolist()
    next_block = (size - workload.prompt_tokens % size).tolist()
    times: list[float] = factor.tolist()

    def ask(index: int, rounds: int, block_done: bool) -> float | None:
        if block_done:
            left[index] = max(left[index] - next_block[index], 0.0)
            next_block[index] = size
        elif rounds > 1:
            return None
        return left[index] * times[index]

    return ask
