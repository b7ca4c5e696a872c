"""What predictors are trained on: one row per served request, without its text."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from dwise_predict.recipe import Duration


@dataclass(frozen=True)
class Examples:
    """Aligned columns of ``n`` requests.

    ``rounds`` counts all denoising rounds, the first included; ``prompt`` identifies the prompt
    (requests with the same one never end up on two sides of a split). ``token_bins`` holds the bins
    of each prompt (:func:`~dwise_predict.predictors.features.token_bins`), None where they are
    unknown.
    """

    prompt: NDArray[np.str_]
    category: NDArray[np.str_]
    words: NDArray[np.int64]
    newlines: NDArray[np.int64]
    prompt_tokens: NDArray[np.int64]
    token_bins: NDArray[np.object_]
    budget_tokens: NDArray[np.int64]
    hidden: NDArray[np.float32]
    rounds: NDArray[np.int64]
    finish_reason: NDArray[np.str_]

    def __post_init__(self) -> None:
        lengths = {field.name: len(getattr(self, field.name)) for field in fields(self)}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"columns differ in length: {lengths}")

    def __len__(self) -> int:
        return len(self.rounds)

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Examples:
        """Select rows by index or mask."""
        return Examples(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    @property
    def finished(self) -> NDArray[np.bool_]:
        """Requests that were served to their end, by themselves or by the budget, ``[n]``."""
        return np.asarray(self.finish_reason != "abort")

    @property
    def durations(self) -> NDArray[np.int64]:
        """Rounds that remain after the first one, ``[n]``, >= 0."""
        return self.rounds - 1

    def events(self, duration: Duration) -> NDArray[np.bool_]:
        """Requests whose duration is known rather than censored, ``[n]``.

        ``completion``: whoever was served to its end, the budget included (the scheduler's view
        and the paper's target). ``budget_free``: only who ended by itself; the budget censors.
        Aborted requests are censored in both.
        """
        if duration == "completion":
            return self.finished
        return np.asarray(self.finish_reason == "eos")


def group_folds(groups: NDArray[np.str_], folds: int, seed: int) -> NDArray[np.int64]:
    """Assign each row to one of ``folds`` folds, ``[n]``, whole groups at a time.

    Groups are shuffled, then dealt out, so that folds differ by at most one group.
    """
    unique, inverse = np.unique(groups, return_inverse=True)
    deal = np.random.default_rng(seed).permutation(len(unique)) % folds
    return np.asarray(deal[inverse], dtype=np.int64)
