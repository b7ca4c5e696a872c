"""Near-duplicate prompts, found exactly: Jaccard similarity of sets of five-word runs."""

from __future__ import annotations

import hashlib
import math
import re
from collections import defaultdict

import numpy as np
import numpy.typing as npt

RUN = 5
"""Words in a run."""

# Thai, Chinese and Japanese write no spaces: there, every character counts as a word.
_UNSPACED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff"
_WORDS = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")


class NearDuplicates:
    """Remembers texts, and refuses those that resemble one it knows.

    Exact, not sampled: two sets with similarity of at least t share an element among the first
    ``n - ceil(t n) + 1`` of either, in any fixed order (prefix filter of Chaudhuri et al., ICDE
    2006), so only texts that do are compared.
    """

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        self._known: list[npt.NDArray[np.uint64]] = []
        self._index: dict[int, list[int]] = defaultdict(list)

    def add(self, text: str) -> bool:
        """Remember ``text``; False, and nothing is remembered, when it resembles a known one."""
        runs = word_runs(text)
        # Rounded down by a hair: a prefix one too long costs nothing, one too short is wrong.
        shared = math.ceil(self._threshold * len(runs) - 1e-9)
        prefix = runs[: len(runs) - shared + 1].tolist()
        candidates = {known for run in prefix for known in self._index.get(run, ())}
        if any(jaccard(runs, self._known[known]) >= self._threshold for known in candidates):
            return False
        for run in prefix:
            self._index[run].append(len(self._known))
        self._known.append(runs)
        return True


def word_runs(text: str) -> npt.NDArray[np.uint64]:
    """Sorted hashes uint64 [n] of the distinct runs of five words, whatever case and punctuation.

    A text of fewer words is one run.
    """
    words = _WORDS.findall(text.casefold())
    runs = {" ".join(words[i : i + RUN]) for i in range(max(1, len(words) - RUN + 1))}
    hashes = (hashlib.blake2b(run.encode(), digest_size=8).digest() for run in runs)
    return np.unique(np.frombuffer(b"".join(hashes), dtype="<u8").astype(np.uint64))


def jaccard(a: npt.NDArray[np.uint64], b: npt.NDArray[np.uint64]) -> float:
    """Share of the elements of two sorted sets that both have."""
    common = len(np.intersect1d(a, b, assume_unique=True))
    return common / (len(a) + len(b) - common)
