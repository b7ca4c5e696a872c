"""What a batch former does."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from dwise_predict.scheduling.protocol import Plan
from dwise_predict.scheduling.residency import ResidencyLimits
from dwise_predict.scheduling.state import Key, RequestState

KeysOf = Callable[[Collection[RequestState]], list[Key]]
"""Gives requests their present keys, in the order of the requests."""


@dataclass(slots=True)
class Counters:
    """What happened besides the plans themselves, for metrics and results."""

    rounds: int = 0
    """Plans that ran something."""
    preemptions: int = 0
    """Residents displaced by others, counted each time."""
    blocked_by_cap: int = 0
    """Rounds in which the resident cap kept out a request that ranked high enough."""
    blocked_by_kv: int = 0
    """Rounds in which the KV reservation did."""
    estimates: int = 0
    """Estimates received after admission."""
    reached_zero: int = 0
    """Requests that went on when their estimate had fallen to zero; told when it ends."""
    overdue: int = 0
    """Requests that became overdue."""


class BatchFormer(Protocol):
    """Keeps waiting requests and residents in the order of their keys, and forms each round.

    ``state.key`` is the key under which the former holds a request that waits or is paused; it
    changes only through :meth:`changed` and :meth:`rekey`. Nearly all running requests have a new
    key in every round: these are asked for where a plan needs them.
    """

    limits: ResidencyLimits
    """What it keeps to."""

    def arrived(self, state: RequestState) -> None:
        """A request waits. Raises ValueError when it could never become resident."""
        ...

    def changed(self, state: RequestState, key: Key) -> None:
        """Give a request a new key."""
        ...

    def prompt_done(self, state: RequestState) -> None:
        """The last prompt block of a running request was processed."""
        ...

    def finished(self, state: RequestState) -> None:
        """A request, waiting or resident, is gone."""
        ...

    def rekey(self, keys_of: KeysOf) -> None:
        """Give every waiting or paused request whose order matters for the next plan a new key."""
        ...

    def plan(self, keys_of: KeysOf, counters: Counters) -> Plan:
        """Form the next round; ``keys_of`` gives the keys of running requests."""
        ...
