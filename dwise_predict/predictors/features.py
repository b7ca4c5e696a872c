"""What is known of a request when it arrives: the three admission features (paper Section 4.2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

FEATURES = ("words", "newlines", "prompt_tokens")
"""Column order of every feature matrix; stored in each bundle."""


def feature_matrix(
    words: ArrayLike, newlines: ArrayLike, prompt_tokens: ArrayLike
) -> NDArray[np.float64]:
    """Stack features into a matrix ``[n, 3]`` with the columns :data:`FEATURES`.

    Args:
        words: whitespace-separated words of the prompt, ``[n]``.
        newlines: newline characters of the prompt, ``[n]``.
        prompt_tokens: tokens after the chat template, ``[n]``.

    Raises:
        ValueError: the columns differ in length.
    """
    columns = [np.asarray(c, dtype=np.float64) for c in (words, newlines, prompt_tokens)]
    return np.stack(columns, axis=1)
