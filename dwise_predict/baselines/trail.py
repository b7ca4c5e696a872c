"""TRAIL: remaining output length from the model's own hidden states, refined in every round.

Shahout et al., "Don't Stop Me Now: Embedding Based Scheduling for LLMs", ICLR 2025
(arXiv:2410.01035), and their code (harvard-cns/TRAIL-llm-scheduling): an MLP (512, ReLU) says in
which of ten bins of equal width the remaining length lies; Bayes' rule combines it with what
earlier rounds said, moved on by a transition matrix; the mean over bins is the estimate. Before the
first round a DistilBERT classifier guesses from the prompt.

What differs here, because a dLLM differs from their model:

- the hidden state is the mean over the block's positions of the *final* normed hidden states, the
  same that DWISE reads, instead of one token's at layer 11 of 32;
- a step is a denoising round, which gives not one token but ``tokens_per_round`` on average: the
  chance to move to the next lower bin is that over the width of a bin;
- the label is the output tokens after this round's block was committed, if it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from dwise_predict.baselines.buckets import BucketClassifier, Buckets
from dwise_predict.baselines.lengths import FloatArray, LengthExamples
from dwise_predict.baselines.rounds import RecordedRounds
from dwise_predict.baselines.settings import TrailSettings
from dwise_predict.baselines.tuning import fit_head, seeded
from dwise_predict.engines.protocol import Refinement, RoundHidden
from dwise_predict.errors import BaselineError
from dwise_predict.progress import Advance
from dwise_predict.simulation.predictions import Reestimate

_ROWS = 16_384
"""Rounds that are evaluated together: all of a large recording would not fit twice in memory."""


class Trail:
    """Predicts remaining output tokens after every denoising round.

    Args:
        settings: of everything.
        initial: guesses the length from the prompt.
        network: from hidden means [n, hidden] to logits [n, bins].
        bins: their ranges.
        tokens_per_round: output tokens over denoising rounds in training.
    """

    def __init__(
        self,
        settings: TrailSettings,
        initial: BucketClassifier,
        network: nn.Module,
        bins: Buckets,
        tokens_per_round: float,
    ) -> None:
        self.settings = settings
        self.initial = initial
        self.network = network
        self.bins = bins
        self.tokens_per_round = tokens_per_round
        self._middle = bins.middle.numpy()
        self._transition = transition(bins, tokens_per_round).numpy()

    @torch.no_grad()
    def evidence(self, means: npt.NDArray[np.float16]) -> FloatArray:
        """Bins of the remaining length as one round alone sees them, float64 [n, bins].

        ``means`` are float16 [n, hidden], as :class:`RoundHidden` holds them.
        """
        parts = torch.split(torch.from_numpy(means), _ROWS)
        logits: Tensor = torch.cat([self.network(part.float()) for part in parts])
        probabilities: FloatArray = logits.double().softmax(1).numpy()
        return probabilities

    def smoothed(self, before: FloatArray | None, evidence: FloatArray) -> FloatArray:
        """The belief after another round.

        Args:
            before: belief after the round before, float64 [n, bins]; None before the first.
            evidence: of this round, float64 [n, bins].

        Returns:
            float64 [n, bins], rows summing to 1.
        """
        if before is None:
            return evidence
        return posterior(before, evidence, self._transition)

    def expected(self, belief: FloatArray) -> FloatArray:
        """Mean remaining output tokens, float64 [n]."""
        mean: FloatArray = belief @ self._middle
        return mean

    def remaining(self, rounds: RecordedRounds) -> list[FloatArray]:
        """Estimates after every recorded round, one float64 array for each of N requests.

        They never exceed what the budget still allows, which is known.
        """
        evidence = self.evidence(rounds.means)
        starts = rounds.starts
        counts = np.diff(starts)
        estimates = np.empty(len(evidence))
        belief = np.empty((len(counts), self.bins.count))
        for round_ in range(int(counts.max())):
            rows = np.flatnonzero(counts > round_)
            seen = starts[rows] + round_
            belief[rows] = self.smoothed(belief[rows] if round_ else None, evidence[seen])
            estimates[seen] = self.expected(belief[rows])
        estimates = np.minimum(estimates, rounds.room)
        return [estimates[a:b] for a, b in pairwise(starts.tolist())]

    def admission(self, texts: Sequence[str]) -> FloatArray:
        """First guesses of output tokens from n prompts, float64 [n]."""
        return self.initial.expected(texts)

    def policy_options(self) -> dict[str, object]:
        """Options of the policy ``trail`` that belong to this predictor."""
        return {
            "preemptible": self.settings.preemptible,
            "rounds_per_token": 1.0 / self.tokens_per_round,
        }

    def simulated(self, rounds: RecordedRounds) -> Reestimate:
        """Estimates after every round of a replay; ``rounds`` are its N requests', in order.

        A request that takes more rounds there than in the recording keeps its last estimate.
        """
        estimates = [own.tolist() for own in self.remaining(rounds)]

        def ask(index: int, rounds_done: int, block_done: bool) -> float | None:
            own = estimates[index]
            return own[rounds_done - 1] if rounds_done <= len(own) else None

        return ask

    def watch(self) -> TrailWatch:
        """The same in the built-in engine, for one call of :meth:`Engine.serve`."""
        return TrailWatch(self)


class TrailWatch:
    """Tells a scheduler TRAIL's estimate after every denoising round of a built-in engine."""

    def __init__(self, trail: Trail) -> None:
        self._trail = trail
        self._beliefs: dict[str, FloatArray] = {}

    def __call__(self, seen: RoundHidden) -> Mapping[str, Refinement]:
        """Estimates of the requests that denoised in this round."""
        trail, answers = self._trail, {}
        rows = [i for i, prompt in enumerate(seen.prefilling) if not prompt]
        if not rows:
            return {}
        for i, evidence in zip(rows, trail.evidence(seen.means[rows]), strict=True):
            request = seen.requests[i]
            before = self._beliefs.get(request.request_id)
            belief = trail.smoothed(None if before is None else before[None], evidence[None])
            self._beliefs[request.request_id] = belief[0]
            room = request.budget_tokens - seen.output_tokens[i]
            answers[request.request_id] = Refinement(
                min(float(trail.expected(belief)[0]), float(room))
            )
        return answers


def transition(bins: Buckets, tokens_per_step: float) -> Tensor:
    """Chances of a remaining length to be in another bin a step later, float64 [bins, bins].

    Row i is where bin i goes: to the next lower one with chance ``tokens_per_step / width``, as if
    lengths lay evenly in it; the lowest keeps its own. With one token a step it is the paper's.
    """
    down = min(1.0, tokens_per_step / bins.width)
    matrix = torch.diag(torch.full((bins.count,), 1.0 - down, dtype=torch.float64))
    matrix += torch.diag(torch.full((bins.count - 1,), down, dtype=torch.float64), diagonal=-1)
    matrix[0, 0] = 1.0
    return matrix


def posterior(before: FloatArray, evidence: FloatArray, matrix: FloatArray) -> FloatArray:
    """Bayes' rule: ``(before @ matrix) * evidence``, normalised; all float64 [n, bins].

    Where both rule each other out to the last bit, the evidence alone counts.
    """
    product = (before @ matrix) * evidence
    total = product.sum(axis=1, keepdims=True)
    possible = total > 0
    result: FloatArray = np.where(possible, product / np.where(possible, total, 1.0), evidence)
    return result


def trail_network(settings: TrailSettings, hidden: int) -> nn.Sequential:
    """The MLP on hidden means of width ``hidden``, freshly drawn."""
    return nn.Sequential(
        nn.Linear(hidden, settings.width), nn.ReLU(), nn.Linear(settings.width, settings.bins)
    )


def train_trail(
    examples: LengthExamples,
    rounds: RecordedRounds,
    initial: BucketClassifier,
    settings: TrailSettings,
    seed: int,
    advance: Advance,
) -> Trail:
    """Train on the recorded rounds of the requests in ``examples``.

    Args:
        examples: training requests.
        rounds: of these; of others too.
        initial: trained classifier of prompts.
        settings: of everything.
        seed: of every random choice.
        advance: told one unit in all.

    Raises:
        BaselineError: the rounds of a training request were not recorded.
    """
    own = rounds.of(examples.request_ids)
    rng = np.random.default_rng(seed)
    rows = np.concatenate(
        [_sample(a, b, settings.samples, rng) for a, b in pairwise(own.starts.tolist())]
    )
    bins = Buckets(settings.bins, int(examples.budget_tokens.max()))
    labels = bins.index(torch.from_numpy(own.left[rows]))
    inputs = torch.from_numpy(own.means[rows]).float()
    if not torch.isfinite(inputs).all():
        raise BaselineError("recorded hidden means hold numbers that are not finite")
    with seeded(seed):
        network = trail_network(settings, inputs.shape[1])
        fit_head(
            network,
            inputs,
            lambda outputs, chosen: cross_entropy(outputs, labels[chosen]),
            settings.tuning,
            advance,
        )
    per_round = float(examples.output_tokens.sum() / examples.rounds.sum())
    return Trail(settings, initial, network, bins, per_round)


def _sample(start: int, stop: int, most: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    rows = np.arange(start, stop)
    return rows if len(rows) <= most else np.sort(rng.choice(rows, most, replace=False))
