"""The scheduler that simulator, built-in engine and SGLang plugin all drive."""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterable

from dwise_predict.scheduling.formers.base import BatchFormer, Counters
from dwise_predict.scheduling.policies.base import Clock, Policy
from dwise_predict.scheduling.protocol import Plan
from dwise_predict.scheduling.state import (
    Arrived,
    Estimated,
    Event,
    Key,
    RequestState,
    Residency,
    RoundProcessed,
)


class RoundScheduler:
    """Keeps the state of every request, has the policy rank it and the former form each round."""

    def __init__(self, policy: Policy, former: BatchFormer) -> None:
        self.policy = policy
        self.former = former
        self.counters = Counters()
        self.clock = Clock()
        self._states: dict[str, RequestState] = {}
        self._deadlines: list[tuple[float, str]] = []

    def state(self, request_id: str) -> RequestState:
        """What is known of a request in the system. Raises KeyError when there is none."""
        return self._states[request_id]

    def observe(self, events: Iterable[Event]) -> None:
        """Update requests in the order of ``events``.

        Raises ValueError when an event contradicts what is known or holds an impossible number,
        which is a fault of the engine or its predictor, and when a request that arrives could
        never become resident. What comes before the fault has then been taken in, it and what
        comes after it not.
        """
        for event in events:
            if isinstance(event, RoundProcessed):
                self._round(event)
                continue
            state = self._states.get(event.request_id)
            if isinstance(event, Arrived):
                if state is not None:
                    raise ValueError(f"request {event.request_id!r} arrived twice")
                self._arrive(event)
            elif state is None:
                name = type(event).__name__
                raise ValueError(f"{name} for request {event.request_id!r}: unknown")
            elif isinstance(event, Estimated):
                self._estimate(state, event)
            else:
                self._note_zero(state)
                self.former.finished(state)
                del self._states[event.request_id]
                state.key = None  # they hold each other: only the garbage collector would free them

    def plan(self, now: float) -> Plan:
        """Decide the next round; ``now`` is not used, so that all ranks decide alike."""
        self._mark_overdue()
        if self.policy.time_dependent:
            self.former.rekey(self._keys)
        plan = self.former.plan(self._keys, self.counters)
        if plan.run:
            self.clock.round += 1
            self.counters.rounds += 1
        return plan

    def processed(
        self,
        prompt: Iterable[RequestState],
        denoised: Iterable[RequestState],
        committed: Iterable[RequestState],
    ) -> None:
        """As ``observe`` with :class:`RoundProcessed`, for engines that keep :meth:`state`.

        Raises ValueError for requests that were not to do so.
        """
        running = Residency.RUNNING
        for state in prompt:
            if not state.prefill_left or state.residency is not running:
                raise ValueError(f"request {state.request_id!r} has no prompt block to do")
            state.prefill_left -= 1
            self.clock.prompt_blocks += 1
            if not state.prefill_left:
                self.former.prompt_done(state)
        for state in denoised:  # the busiest loop: nearly every slot of every round
            if state.prefill_left or state.residency is not running:
                raise ValueError(f"request {state.request_id!r} was not to denoise")
            state.rounds += 1
        for state in committed:
            state.committed_at = state.rounds

    def _round(self, event: RoundProcessed) -> None:
        states = self._states
        try:
            rows = [[states[request_id] for request_id in ids] for ids in event]
        except KeyError as error:
            raise ValueError(f"RoundProcessed for request {error}: unknown") from error
        self.processed(*rows)

    def _estimate(self, state: RequestState, event: Estimated) -> None:
        _check(event.request_id, "estimate", event.remaining)
        if event.residual is not None:
            for value in event.residual:
                _check(event.request_id, "residual", value)
            if not len(event.residual):
                raise ValueError(f"the residual of request {event.request_id!r} is empty")
        self._note_zero(state)
        state.estimate, state.estimated_at = event.remaining, state.rounds
        state.residual = event.residual
        self.counters.estimates += 1
        self._set_deadline(state)
        self.former.changed(state, *self._keys([state]))

    def _arrive(self, event: Arrived) -> None:
        _check(event.request_id, "estimate", event.estimate)
        _check(event.request_id, "arrival", event.arrival_s)
        if min(event.prompt_tokens, event.prompt_blocks, event.budget_tokens) < 0:
            raise ValueError(f"request {event.request_id!r} has a negative size: {event}")
        state = RequestState(
            request_id=event.request_id,
            arrival_s=event.arrival_s,
            seniority=(event.arrival_s, event.request_id),
            prompt_tokens=event.prompt_tokens,
            prompt_blocks=event.prompt_blocks,
            budget_tokens=event.budget_tokens,
            prefill_left=event.prompt_blocks,
            estimate=event.estimate,
            first_estimate=event.estimate,
            rank_class=2 * event.tier,
            arrived_round=self.clock.round,
            arrived_prompt_blocks=self.clock.prompt_blocks,
        )
        [state.key] = self._keys([state])
        self.former.arrived(state)
        self._states[event.request_id] = state
        self._set_deadline(state)

    def _keys(self, states: Collection[RequestState]) -> list[Key]:
        priorities = self.policy.priorities(states, self.clock)
        if self.counters.overdue:
            priorities = [
                state.deadline if state.overdue else priority
                for state, priority in zip(states, priorities, strict=True)
            ]
        return [
            (state.rank_class, priority, state.seniority, state)
            for state, priority in zip(states, priorities, strict=True)
        ]

    def _note_zero(self, state: RequestState) -> None:
        """Count a request whose estimate, which ends now, was outlived; once."""
        # Its last round began when the estimate had fallen to zero already.
        outlived = 0 < state.estimate <= state.rounds - 1 - state.estimated_at
        if outlived and not state.reached_zero:
            state.reached_zero = True
            self.counters.reached_zero += 1

    def _set_deadline(self, state: RequestState) -> None:
        patience = self.policy.patience(state)
        if patience is not None and not state.overdue:
            state.deadline = state.arrived_round + patience
            heapq.heappush(self._deadlines, (state.deadline, state.request_id))

    def _mark_overdue(self) -> None:
        while self._deadlines and self._deadlines[0][0] <= self.clock.round:
            deadline, request_id = heapq.heappop(self._deadlines)
            state = self._states.get(request_id)
            if state is None or state.overdue or state.deadline != deadline:
                continue
            state.overdue = True
            state.rank_class -= 1
            self.counters.overdue += 1
            self.former.changed(state, *self._keys([state]))


def _check(request_id: str, what: str, number: float) -> None:
    # A NaN has no place in an order: one would silently corrupt the queues.
    if not math.isfinite(number):
        raise ValueError(f"the {what} of request {request_id!r} is not a finite number")
