"""What is known of a request when it arrives.

``sizes`` are the paper's three admission features (Section 4.2). ``extended`` adds how often each
token occurs in the prompt, tokens hashed into :data:`BINS` bins: the sizes of a prompt say which
kind of request it is, its tokens say which of that kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dwise_predict.recipe import AdmissionFeatures

BINS = 1024
"""Bins of token counts; a token belongs to the bin ``token id mod BINS``."""
COUNTED = 1024
"""Tokens of a prompt that are counted: of a longer one, the first and the last half of these."""

SIZES = ("words", "newlines", "prompt_tokens")
FEATURES: dict[AdmissionFeatures, tuple[str, ...]] = {
    "sizes": SIZES,
    "extended": (*SIZES, f"token_counts_{BINS}"),
}
"""Names of the features in column order, as each bundle stores them; the last of ``extended``
stands for ``BINS`` columns."""

TokenIds: TypeAlias = Sequence[int] | NDArray[np.integer]


def column_names(features: AdmissionFeatures) -> tuple[str, ...]:
    """Name of every column of :func:`feature_matrix`."""
    if features == "sizes":
        return SIZES
    return (*SIZES, *(f"token_count_{i}" for i in range(BINS)))


def feature_matrix(
    words: ArrayLike,
    newlines: ArrayLike,
    prompt_tokens: ArrayLike,
    token_ids: Sequence[TokenIds] | None = None,
) -> NDArray[np.float64]:
    """Stack features into a matrix, ``[n, 3]`` (``sizes``) or ``[n, 3 + BINS]`` (``extended``).

    Args:
        words: whitespace-separated words of the prompt, ``[n]``.
        newlines: newline characters of the prompt, ``[n]``.
        prompt_tokens: tokens after the chat template, ``[n]``.
        token_ids: these tokens, or their bins (:func:`token_bins`), of each of the ``n`` prompts;
            None: ``sizes``.

    Raises:
        ValueError: the columns differ in length.
    """
    columns = [np.asarray(c, dtype=np.float64) for c in (words, newlines, prompt_tokens)]
    sizes = np.stack(columns, axis=1)
    if token_ids is None:
        return sizes
    if len(token_ids) != len(sizes):
        raise ValueError(f"token_ids of {len(token_ids)} prompts, sizes of {len(sizes)}")
    return np.hstack([sizes, counts_matrix(token_ids)])


def counts_matrix(token_ids: Sequence[TokenIds]) -> NDArray[np.float64]:
    """:func:`token_counts` of ``n`` prompts, ``[n, BINS]``."""
    counted = [_counted(ids) for ids in token_ids]
    rows = np.repeat(np.arange(len(counted)), [len(ids) for ids in counted])
    cells = rows * BINS + np.concatenate([np.empty(0, np.int64), *counted]) % BINS
    counts = np.bincount(cells, minlength=len(counted) * BINS)
    return counts.reshape(-1, BINS).astype(np.float64)


def token_counts(token_ids: TokenIds) -> NDArray[np.intp]:
    """How many of the counted tokens of a prompt are in each bin, ``[BINS]``."""
    return np.bincount(_counted(token_ids) % BINS, minlength=BINS)


def token_bins(token_ids: TokenIds) -> list[int]:
    """Bins of the counted tokens of a prompt, sorted: what a profile keeps of its tokens.

    They can stand for the token ids wherever these are asked for, since they are counted alike.
    """
    bins: list[int] = np.sort(_counted(token_ids) % BINS).tolist()
    return bins


def _counted(token_ids: TokenIds) -> NDArray[np.int64]:
    if len(token_ids) <= COUNTED:
        return np.asarray(token_ids, dtype=np.int64)
    half = COUNTED // 2
    return np.concatenate(
        [np.asarray(part, dtype=np.int64) for part in (token_ids[:half], token_ids[-half:])]
    )
