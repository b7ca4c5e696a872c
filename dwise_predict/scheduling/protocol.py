"""The contract between an engine (or a simulator) and a scheduler, and its checks."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Protocol

from dwise_predict.scheduling.state import Event


@dataclass(frozen=True, slots=True)
class Plan:
    """One round: who becomes resident, whose next block is processed, who is displaced.

    ``admit`` is in order of admission. ``run`` holds residents, those in ``admit`` included, at
    most one block each; its order has no meaning. ``pause`` holds the residents that were in the
    last round and are not in this one: they keep KV and partial block, as do all residents
    that do not run.
    """

    admit: tuple[str, ...] = ()
    run: tuple[str, ...] = ()
    pause: tuple[str, ...] = ()


class Scheduler(Protocol):
    """Decides every round; told everything that happens through :meth:`observe`.

    An engine calls ``observe`` with all events since the last round, in order, then ``plan``,
    and carries the plan out as a whole before it calls either again. An admitted request stays
    resident until its :class:`~dwise_predict.scheduling.state.Finished` event. Decisions must
    depend on the events only, so that all tensor-parallel ranks decide alike.
    """

    def plan(self, now: float) -> Plan:
        """Decide the next round at ``now``, in seconds on the clock of the arrivals."""
        ...

    def observe(self, events: Iterable[Event]) -> None:
        """Take note of what happened since the last call."""
        ...


def plan_faults(
    plan: Plan, waiting: Collection[str], residents: Collection[str], slots: int
) -> list[str]:
    """What makes ``plan`` impossible, one sentence each; empty when it can be carried out.

    ``waiting`` and ``residents`` are the request ids before the plan.
    """
    faults = []
    if strangers := [i for i in plan.admit if i not in waiting]:
        faults.append(f"it admits requests that do not wait: {strangers}")
    for name, ids in (("admit", plan.admit), ("run", plan.run), ("pause", plan.pause)):
        if len(set(ids)) != len(ids):
            faults.append(f"{name} names a request twice")
    if both := sorted(set(plan.run) & set(plan.pause)):
        faults.append(f"it both runs and pauses {both}")
    admitted = set(plan.admit)
    for name, ids in (("runs", plan.run), ("pauses", plan.pause)):
        if absent := sorted(i for i in ids if i not in residents and i not in admitted):
            faults.append(f"it {name} requests that are not resident: {absent}")
    if len(plan.run) > slots:
        faults.append(f"it runs {len(plan.run)} requests in {slots} slots")
    return faults
