"""The scheduler that simulator, built-in engine and SGLang plugin all drive."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable

from dwise_predict.scheduling.formers.base import BatchFormer, Counters
from dwise_predict.scheduling.policies.base import Clock, Policy
from dwise_predict.scheduling.protocol import Plan
from dwise_predict.scheduling.state import (
    Arrived,
    DenoisingRoundProcessed,
    Estimated,
    Event,
    Finished,
    Key,
    PromptBlockProcessed,
    RequestState,
    Residency,
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
        never become resident. Events before that one have then been taken in, it and those after
        it not.
        """
        states, running = self._states, Residency.RUNNING
        for event in events:
            state = states.get(event.request_id)
            if state is None:
                self._arrive(event)
                continue
            # Most events are of the first kind: one for nearly every slot of every round.
            if isinstance(event, DenoisingRoundProcessed):
                if state.prefill_left or state.residency is not running:
                    raise ValueError(f"request {event.request_id!r} was not to denoise")
                if 0 < state.estimate <= state.rounds - state.estimated_at:
                    self._note_zero(state)
                state.rounds += 1
                state.mid_block = not event.block_done
                continue  # the former asks for keys of running requests when it plans
            if isinstance(event, PromptBlockProcessed):
                if not state.prefill_left or state.residency is not running:
                    raise ValueError(f"request {event.request_id!r} has no prompt block to do")
                state.prefill_left -= 1
                self.clock.prompt_blocks += 1
                if not state.prefill_left:
                    self.former.prompt_done(state)
            elif isinstance(event, Estimated):
                _check(event.request_id, "estimate", event.remaining)
                if event.residual is not None:
                    _check(event.request_id, "residual", *event.residual)
                    if not len(event.residual):
                        raise ValueError(f"the residual of request {event.request_id!r} is empty")
                state.estimate, state.estimated_at = event.remaining, state.rounds
                state.residual = event.residual
                self.counters.estimates += 1
                self._set_deadline(state)
                self.former.changed(state, self._key(state))
            elif isinstance(event, Finished):
                self.former.finished(state)
                del states[event.request_id]
            else:
                raise ValueError(f"request {event.request_id!r} arrived twice")

    def plan(self, now: float) -> Plan:
        """Decide the next round; ``now`` is not used, so that all ranks decide alike."""
        self._mark_overdue()
        if self.policy.time_dependent:
            self.former.rekey(self._key)
        plan = self.former.plan(self._key, self.counters)
        if plan.run:
            self.clock.round += 1
            self.counters.rounds += 1
        return plan

    def _arrive(self, event: Event) -> None:
        if not isinstance(event, Arrived):
            raise ValueError(f"{type(event).__name__} for request {event.request_id!r}: unknown")
        _check(event.request_id, "estimate", event.estimate)
        _check(event.request_id, "arrival", event.arrival_s)
        if min(event.prompt_tokens, event.prompt_blocks, event.budget_tokens) < 0:
            raise ValueError(f"request {event.request_id!r} has a negative size: {event}")
        state = RequestState(
            request_id=event.request_id,
            arrival_s=event.arrival_s,
            prompt_tokens=event.prompt_tokens,
            prompt_blocks=event.prompt_blocks,
            budget_tokens=event.budget_tokens,
            prefill_left=event.prompt_blocks,
            estimate=event.estimate,
            first_estimate=event.estimate,
            tier=event.tier,
            arrived_round=self.clock.round,
            arrived_prompt_blocks=self.clock.prompt_blocks,
        )
        state.key = self._key(state)
        self.former.arrived(state)
        self._states[event.request_id] = state
        self._set_deadline(state)

    def _key(self, state: RequestState) -> Key:
        if state.overdue:
            return state.key
        priority = self.policy.priority(state, self.clock)
        return 2 * state.tier, priority, state.arrival_s, state.request_id

    def _note_zero(self, state: RequestState) -> None:
        if not state.reached_zero:
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
            self.counters.overdue += 1
            key = 2 * state.tier - 1, deadline, state.arrival_s, request_id
            self.former.changed(state, key)


def _check(request_id: str, what: str, *numbers: float) -> None:
    # A NaN has no place in an order: one would silently corrupt the queues.
    if not all(map(math.isfinite, numbers)):
        raise ValueError(f"the {what} of request {request_id!r} is not a finite number")
