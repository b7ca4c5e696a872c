"""SGLang's batch former: prefill before denoising, residents stay until they finish."""

from __future__ import annotations

from collections.abc import Container
from heapq import nsmallest

from dwise_predict.scheduling.formers.base import Counters, KeysOf
from dwise_predict.scheduling.formers.queue import RequestQueue
from dwise_predict.scheduling.protocol import Plan
from dwise_predict.scheduling.residency import KvReservations, ResidencyLimits
from dwise_predict.scheduling.state import Key, RequestState, Residency


class PrefillFirst:
    """Rounds of one phase, prefill before denoising (SGLang 0.5.20, ``srt/dllm``, FDFO).

    Requests become residents in the order of their keys while ``limits`` allow. As long as any
    resident has a prompt block left, only residents with prompt blocks run. SGLang has as many
    residents as slots (``limits.multiplier=1``) and they never pause but for the phase. With
    more residents, those with the smallest keys run: what a preemptive policy comes to when it is
    put on SGLang's former, with every prompt round stalling all residents (paper Section 6.3).

    ``held_rows`` reproduces a fault of SGLang 0.5.20, and so of what the paper measured: a
    resident with an unfinished output block holds a row of the request pool (of which there are
    as many as residents are allowed), and a resident whose prompt is shorter than a block may
    start only while fewer requests are in the round than rows are free. Such residents can wait
    for thousands of rounds, in slots that stay empty.
    """

    def __init__(self, limits: ResidencyLimits, held_rows: bool = False) -> None:
        self.limits = limits
        self.held_rows = held_rows
        self._waiting = RequestQueue()
        self._prefilling: dict[str, RequestState] = {}
        self._denoising: dict[str, RequestState] = {}
        self._ran: tuple[str, ...] = ()
        self._kv = KvReservations(limits)

    def arrived(self, state: RequestState) -> None:
        """A request waits. Raises ValueError when its reservation can never fit."""
        self._kv.check(state)
        self._waiting.put(state)

    def changed(self, state: RequestState, key: Key) -> None:
        """Note a new key."""
        waiting = state.residency is Residency.WAITING
        if waiting:
            self._waiting.take(state)
        state.key = key
        if waiting:
            self._waiting.put(state)

    def prompt_done(self, state: RequestState) -> None:
        """From now on the request denoises."""
        self._denoising[state.request_id] = self._prefilling.pop(state.request_id)

    def finished(self, state: RequestState) -> None:
        """Forget a request."""
        if state.residency is Residency.WAITING:
            self._waiting.take(state)
            return
        self._kv.release(state)
        if self._prefilling.pop(state.request_id, None) is None:
            del self._denoising[state.request_id]

    def rekey(self, keys_of: KeysOf) -> None:
        """Sort the queue anew, if a place is free."""
        if self._free_places() > 0:
            self._waiting.rekey(keys_of)

    def plan(self, keys_of: KeysOf, counters: Counters) -> Plan:
        """Fill free places from the head of the queue, then run one phase."""
        admit = []
        for _ in range(min(self._free_places(), len(self._waiting))):
            state = self._waiting.head()[3]
            if not self._kv.reserve(state):
                counters.blocked_by_kv += 1
                break
            self._waiting.take(state)
            state.residency = Residency.RUNNING
            residents = self._prefilling if state.prefill_left else self._denoising
            residents[state.request_id] = state
            admit.append(state.request_id)
        phase = self._prefilling or self._denoising
        if self.held_rows and phase is self._denoising:
            run = self._with_free_rows(keys_of)
        else:
            run = self._first(phase, keys_of)
        pause = left_out(self._ran, run, (self._prefilling, self._denoising))
        # Whoever merely waits for the other phase is not displaced.
        counters.preemptions += sum(request_id in phase for request_id in pause)
        self._ran = run
        return Plan(tuple(admit), run, pause)

    def _free_places(self) -> int:
        return self.limits.cap - len(self._prefilling) - len(self._denoising)

    def _first(self, residents: dict[str, RequestState], keys_of: KeysOf) -> tuple[str, ...]:
        slots = self.limits.slots
        if len(residents) <= slots:
            return tuple(residents)
        first = nsmallest(slots, keys_of(residents.values()))
        return tuple([key[3].request_id for key in first])

    def _with_free_rows(self, keys_of: KeysOf) -> tuple[str, ...]:
        started: dict[str, RequestState] = {}
        incoming: list[str] = []
        held = 0
        for request_id, state in self._denoising.items():
            held += state.mid_block
            if state.attained:
                started[request_id] = state
            else:
                incoming.append(request_id)
        run = self._first(started, keys_of)
        places = min(self.limits.slots, self.limits.cap - held) - len(run)
        return run + tuple(incoming[: max(places, 0)])


def left_out(
    before: tuple[str, ...], now: tuple[str, ...], residents: tuple[Container[str], ...]
) -> tuple[str, ...]:
    """Requests of the round before that are still resident and not in this round."""
    if before == now:
        return ()
    running = set(now)
    return tuple([i for i in before if i not in running and any(i in group for group in residents)])
