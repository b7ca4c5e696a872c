"""What a scheduler knows about a request, and the events that change it.

Schedulers never see tokens, tensors or an engine's own objects: only these events. The same
scheduler object can therefore decide in the built-in engine, in a simulator and in SGLang.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class Arrived:
    """A request entered the waiting set."""

    request_id: str
    arrival_s: float
    prompt_tokens: int
    prompt_blocks: int
    budget_tokens: int


@dataclass(frozen=True, slots=True)
class PromptBlockProcessed:
    """The request's slot of the last round processed one prompt block."""

    request_id: str


@dataclass(frozen=True, slots=True)
class DenoisingRoundProcessed:
    """The request's slot of the last round held its output block (committing forward included)."""

    request_id: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The request left the engine and its KV is free."""

    request_id: str


Event = Arrived | PromptBlockProcessed | DenoisingRoundProcessed | Finished


class Residency(Enum):
    """Where a request is: residents are running (in this round) or paused (KV kept)."""

    WAITING = "waiting"
    RUNNING = "running"
    PAUSED = "paused"


@dataclass(slots=True)
class RequestState:
    """One request in the system, as a scheduler keeps it.

    ``prefill_left`` counts unprocessed prompt blocks (P of the paper), ``rounds`` the denoising
    rounds so far.
    """

    request_id: str
    arrival_s: float
    prompt_tokens: int
    budget_tokens: int
    prefill_left: int
    rounds: int = 0
    residency: Residency = Residency.WAITING


def apply(states: dict[str, RequestState], event: Event) -> None:
    """Update ``states``, keyed by request id in order of arrival, with one event.

    Raises ValueError when the event contradicts the states, which is a fault of the engine.
    """
    known = event.request_id in states
    if isinstance(event, Arrived):
        if known:
            raise ValueError(f"request {event.request_id!r} arrived twice")
        states[event.request_id] = RequestState(
            request_id=event.request_id,
            arrival_s=event.arrival_s,
            prompt_tokens=event.prompt_tokens,
            budget_tokens=event.budget_tokens,
            prefill_left=event.prompt_blocks,
        )
        return
    if not known:
        raise ValueError(f"{type(event).__name__} for request {event.request_id!r}: unknown")
    state = states[event.request_id]
    if isinstance(event, Finished):
        del states[event.request_id]
    elif isinstance(event, PromptBlockProcessed):
        if state.prefill_left == 0:
            raise ValueError(f"request {event.request_id!r} has no prompt block left")
        state.prefill_left -= 1
    else:
        state.rounds += 1
