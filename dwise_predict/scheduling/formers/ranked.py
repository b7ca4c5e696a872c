"""The batch former of the paper's Algorithm 1: the B residents that rank first."""

from __future__ import annotations

from bisect import bisect_left, insort
from heapq import merge
from itertools import islice

from dwise_predict.scheduling.formers.base import Counters, KeysOf
from dwise_predict.scheduling.formers.lean import LeanFill
from dwise_predict.scheduling.formers.prefill_first import left_out
from dwise_predict.scheduling.formers.queue import RequestQueue
from dwise_predict.scheduling.protocol import Plan
from dwise_predict.scheduling.residency import KvReservations, ResidencyLimits
from dwise_predict.scheduling.state import Key, RequestState, Residency


class Ranked:
    """Each round goes to the B residents with the smallest keys (Algorithm 1).

    A waiting request becomes resident when it ranks among the B smallest of all requests, fewer
    than k·B are resident and its KV reservation fits (lines 3-7). Residents that fall out
    of the B smallest are paused.

    With ``mixed`` prompt and output blocks share a round. Without it the round has one phase: as
    long as one of the B needs a prompt block, only these run. That is DWISE on models whose
    phases cannot share a forward pass (DiffusionGemma).

    ``hysteresis`` h makes displacing harder: the priority of a request of the last round counts
    as smaller by the share h. Overdue requests, which wait for each other, are left alone.
    ``lean`` may leave slots empty (:class:`LeanFill`).

    Only requests of the last round move by themselves, so they alone are sorted in each round.
    Waiting and paused requests lie in sorted queues: apart from the logarithm in a change, a
    plan does not cost more when there are more of them.
    """

    def __init__(
        self,
        limits: ResidencyLimits,
        mixed: bool = True,
        hysteresis: float = 0.0,
        lean: LeanFill | None = None,
    ) -> None:
        if not 0 <= hysteresis < 1:
            raise ValueError(f"hysteresis must be at least 0 and below 1, not {hysteresis}")
        self.limits = limits
        self.mixed = mixed
        self.hysteresis = hysteresis
        self.lean = lean
        self._waiting = RequestQueue()
        self._paused = RequestQueue()
        self._running: list[RequestState] = []
        self._ran: tuple[str, ...] = ()
        self._kv = KvReservations(limits)

    def arrived(self, state: RequestState) -> None:
        """A request waits. Raises ValueError when its reservation can never fit."""
        self._kv.check(state)
        self._waiting.put(state)

    def changed(self, state: RequestState, key: Key) -> None:
        """Move a request to where its new key belongs."""
        if state.residency is Residency.RUNNING:
            state.key = key
            return
        queue = self._waiting if state.residency is Residency.WAITING else self._paused
        queue.take(state)
        state.key = key
        queue.put(state)

    def prompt_done(self, state: RequestState) -> None:
        """Nothing changes: phases share rounds, or are told apart when one is formed."""

    def finished(self, state: RequestState) -> None:
        """Forget a request and free its reservation."""
        if state.residency is Residency.WAITING:
            self._waiting.take(state)
            return
        if state.residency is Residency.RUNNING:
            self._running.remove(state)
        else:
            self._paused.take(state)
        self._kv.release(state)

    def rekey(self, keys_of: KeysOf) -> None:
        """Sort everything anew."""
        self._waiting.rekey(keys_of)
        self._paused.rekey(keys_of)

    def plan(self, keys_of: KeysOf, counters: Counters) -> Plan:
        """Lines 2 to 9 of Algorithm 1."""
        slots, paused = self.limits.slots, self._paused
        ranked = keys_of(self._running)
        if self.hysteresis:
            ranked = [self._incumbent(key) for key in ranked]
        ranked.sort()
        admit = self._admit(ranked, counters)
        if self.lean is not None:
            present = len(self._waiting) + len(paused) + len(ranked)
            in_order = (key[3] for key in merge(ranked, paused))
            slots = self.lean.slots(islice(in_order, slots), present)
        while paused and (len(ranked) < slots or paused.head() < ranked[slots - 1]):
            key = paused.head()
            paused.take(key[3])
            key[3].residency = Residency.RUNNING
            insort(ranked, key)
        left = []
        for *_, state in ranked[slots:]:
            state.residency = Residency.PAUSED
            [state.key] = keys_of([state])
            paused.put(state)
            if state.request_id not in admit:  # with lean, some are admitted for later rounds
                left.append(state.request_id)
        counters.preemptions += len(left)
        # All of them mostly move alike: what is in order now is quickly sorted next time.
        self._running = [key[3] for key in ranked[:slots]]
        run = tuple([state.request_id for state in self._running])
        if self.mixed:
            return Plan(admit, run, tuple(left))
        run = tuple([state.request_id for state in self._running if state.prefill_left]) or run
        pause = left_out(self._ran, run, (self._kv,))
        self._ran = run
        return Plan(admit, run, pause)

    def _incumbent(self, key: Key) -> Key:
        order, priority, seniority, state = key
        if state.overdue:
            return key
        return order, priority - self.hysteresis * abs(priority), seniority, state

    def _admit(self, ranked: list[Key], counters: Counters) -> tuple[str, ...]:
        """Lines 3 to 7; puts the keys of the new residents into ``ranked``."""
        slots, waiting, paused = self.limits.slots, self._waiting, self._paused
        if not waiting or (len(ranked) >= slots and ranked[slots - 1] < waiting.head()):
            return ()
        chosen: list[Key] = []
        out_of_kv = False
        for place, key in enumerate(waiting):
            if place + bisect_left(ranked, key) + paused.ahead(key) >= slots:
                break
            if len(self._kv) >= self.limits.cap:
                counters.blocked_by_cap += 1
                break
            if not self._kv.reserve(key[3]):
                out_of_kv = True
                if key[3].overdue:
                    break  # later ones must not take the KV that it waits for
                continue
            chosen.append(key)
        counters.blocked_by_kv += out_of_kv
        for key in chosen:
            waiting.take(key[3])
            key[3].residency = Residency.RUNNING
            insort(ranked, key)
        return tuple([key[3].request_id for key in chosen])
