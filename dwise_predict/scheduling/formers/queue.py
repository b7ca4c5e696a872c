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
        self._states: dict[str, RequestState] = {}

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._keys)

    def __getitem__(self, key: Key) -> RequestState:
        return self._states[key[3]]

    def put(self, state: RequestState) -> None:
        """Add a request under its key."""
        self._keys.add(state.key)
        self._states[state.request_id] = state

    def take(self, state: RequestState) -> None:
        """Remove a request that is here under its key."""
        self._keys.remove(state.key)
        del self._states[state.request_id]

    def head(self) -> Key:
        """The smallest key. Raises IndexError when empty."""
        key: Key = self._keys[0]
        return key

    def ahead(self, key: Key) -> int:
        """How many requests have a smaller key."""
        place: int = self._keys.bisect_left(key)
        return place

    def rekey(self, keys_of: KeysOf) -> None:
        """Give every request a new key."""
        states = list(self._states.values())
        keys = keys_of(states)
        for state, key in zip(states, keys, strict=True):
            state.key = key
        self._keys = SortedList(keys)
