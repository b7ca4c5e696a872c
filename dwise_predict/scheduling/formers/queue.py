"""Requests in the order of their keys."""

from __future__ import annotations

from collections.abc import Callable

from sortedcontainers import SortedDict

from dwise_predict.scheduling.state import Key, RequestState


class RequestQueue(SortedDict):  # type: ignore[misc]
    """Maps ``state.key`` to the state, smallest key first; changes cost O(log n)."""

    def put(self, state: RequestState) -> None:
        """Add a request under its key."""
        self[state.key] = state

    def take(self, state: RequestState) -> None:
        """Remove a request that is here under its key."""
        del self[state.key]

    def head(self) -> Key:
        """The smallest key. Raises IndexError when empty."""
        key: Key = self.keys()[0]
        return key

    def rekey(self, key_of: Callable[[RequestState], Key]) -> None:
        """Give every request a new key."""
        states: list[RequestState] = list(self.values())
        for state in states:
            state.key = key_of(state)
        self.clear()
        self.update((state.key, state) for state in states)
