"""Requests in the order of their keys."""

from __future__ import annotations

from collections.abc import Iterator

from sortedcontainers import SortedList

from dwise_predict.scheduling.formers.base import KeysOf
from dwise_predict.scheduling.state import Key, RequestState


class RequestQueue:
    """Keeps requests sorted by ``state.key``, smallest first; changes cost O(log n)."""

    def __init__(self) -> None:
        self._keys = SortedList()

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._keys)

    def put(self, state: RequestState) -> None:
        """Add a request under its key."""
        self._keys.add(state.key)

    def take(self, state: RequestState) -> None:
        """Remove a request that is here under its key."""
        self._keys.remove(state.key)

    def head(self) -> Key:
        """The smallest key. Raises IndexError when empty."""
        key: Key = self._keys[0]
        return key

    def ahead(self, key: Key) -> int:
        """How many requests have a smaller key."""
        if not self._keys or key < self._keys[0]:
            return 0  # mostly: those who wait for their turn rank behind those who had it
        place: int = self._keys.bisect_left(key)
        return place

    def rekey(self, keys_of: KeysOf) -> None:
        """Give every request a new key."""
        states = [key[3] for key in self._keys]
        keys = keys_of(states)
        for state, key in zip(states, keys, strict=True):
            state.key = key
        self._keys = SortedList(keys)
