"""Where requests can be sent, and what can happen to them there."""

from __future__ import annotations

from typing import Protocol

from dwise_predict.engines.protocol import EngineRequest
from dwise_predict.errors import EngineError


class UnreachableError(EngineError):
    """Nothing answers; it may later."""


class RefusedError(EngineError):
    """SGLang refuses a request, and would again."""


class BusyError(EngineError):
    """SGLang, or what is in front of it, does not take a request now; it may in a while."""


class AbortedError(EngineError):
    """SGLang gave a request up."""


class Target(Protocol):
    """An engine or a server."""

    name: str
    capacity: int
    """Requests that it may hold at a time."""

    async def check(self) -> None:
        """Return if it can be used.

        Raises UnreachableError if it does not answer, EngineError if it is not what it should be.
        """
        ...

    async def answer(self, request: EngineRequest) -> str:
        """Serve ``request`` greedily; returns the text of its answer.

        Raises UnreachableError when the answer is lost, BusyError, RefusedError or AbortedError
        when there will be none.
        """
        ...


def sampling_parameters(request: EngineRequest) -> dict[str, float]:
    """Greedy decoding within the request's budget."""
    return {"temperature": 0, "max_new_tokens": request.budget_tokens}
