"""Running SGLang servers, or SGLang's router in front of them, by HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from dwise_predict.engines.protocol import EngineRequest
from dwise_predict.engines.sglang_engine.state import ServerState, server_state
from dwise_predict.engines.sglang_engine.targets import (
    AbortedError,
    BusyError,
    RefusedError,
    UnreachableError,
    sampling_parameters,
)
from dwise_predict.errors import EngineError

if TYPE_CHECKING:
    from aiohttp import ClientSession

_INFO_SECONDS = 60.0
"""A server whose scheduler is in a long round answers late."""
_NOT_NOW = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
_CONNECT_SECONDS = 10.0
_ROUTED = 1024
"""Requests in flight at a router, which does not say how many slots are behind it."""

Faults = Callable[[ServerState], Sequence[str]]
Decode = Callable[[Sequence[int]], str]


class HttpServer:
    """One address.

    Args:
        url: of the server, without a path.
        session: of the HTTP client.
        in_flight: requests that it may hold at a time; None: twice its slots.
        faults: why the campaign cannot use a server, one sentence each.
        decode: text of token ids, for servers without a tokenizer.
    """

    def __init__(
        self,
        url: str,
        session: ClientSession,
        in_flight: int | None,
        faults: Faults,
        decode: Decode,
    ) -> None:
        self.name = url
        self.capacity = in_flight or 1
        self.state: ServerState | None = None
        """What it said last; None before it said anything."""
        self._in_flight = in_flight
        self._session = session
        self._faults = faults
        self._decode = decode

    async def check(self) -> None:
        """Ask what it is; raises UnreachableError, or EngineError with what is wrong."""
        state = await ask_state(self.name, self._session)
        if found := self._faults(state):
            raise EngineError(f"{self.name} cannot be used: {'; '.join(found)}")
        self.state = state
        # As many wait there as run, so that no slot stays empty and little is lost with it.
        self.capacity = self._in_flight or 2 * state.slots or _ROUTED

    async def answer(self, request: EngineRequest) -> str:
        """Serve one request; its id travels as ``rid``, under which it is recorded."""
        import aiohttp

        body = {
            "rid": request.request_id,
            "input_ids": list(request.prompt_ids),
            "sampling_params": sampling_parameters(request),
        }
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
        try:
            async with self._session.post(
                f"{self.name}/generate", json=body, timeout=timeout
            ) as response:
                if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                    raise UnreachableError(f"{self.name} answers {response.status}")
                if response.status != HTTPStatus.OK:
                    text = f"{response.status} {(await response.text())[:500]}"
                    # SGLang knows an id for some seconds after the connection it came by was lost.
                    if response.status in _NOT_NOW or "Duplicate request ID" in text:
                        raise BusyError(text)
                    raise RefusedError(text)
                answer = await response.json(content_type=None)
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError, ValueError) as error:
            raise UnreachableError(f"{self.name}: {error or type(error).__name__}") from error
        return self._text(answer)

    def _text(self, answer: dict[str, Any]) -> str:
        reason = answer["meta_info"].get("finish_reason") or {}
        if reason.get("type") == "abort":
            raise AbortedError(str(reason.get("message") or "no reason given"))
        text = answer.get("text")
        return str(text) if text is not None else self._decode(answer["output_ids"])


@asynccontextmanager
async def http_session() -> AsyncIterator[ClientSession]:
    """An HTTP client for any number of requests at a time."""
    import aiohttp

    # Proxies of the environment are for the way out, not for the nodes of a cluster.
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, trust_env=False) as session:
        yield session


async def ask_state(url: str, session: ClientSession) -> ServerState:
    """What the server at ``url`` says of itself; raises UnreachableError when it says nothing."""
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=_INFO_SECONDS, sock_connect=_CONNECT_SECONDS)
    try:
        async with session.get(f"{url}/server_info", timeout=timeout) as response:
            status, info = response.status, {}
            if status == HTTPStatus.OK:
                info = await response.json(content_type=None)
        if status == HTTPStatus.NOT_FOUND:
            # A router need not know this address, but says whether it is well.
            async with session.get(f"{url}/health", timeout=timeout) as response:
                status = response.status
    except (aiohttp.ClientError, asyncio.TimeoutError, OSError, ValueError) as error:
        raise UnreachableError(f"{url}: {error or type(error).__name__}") from error
    if status != HTTPStatus.OK:
        raise UnreachableError(f"{url}/server_info answers {status}")
    if not isinstance(info, dict):
        raise UnreachableError(f"{url}/server_info is no SGLang server's answer")
    return server_state(info)


async def check_servers(servers: Sequence[HttpServer]) -> list[str]:
    """Check all servers; returns what those say that do not answer.

    Raises EngineError when none answers, or one cannot be used; all of these are named.
    """
    silent: list[str] = []
    wrong: list[str] = []
    for server in servers:
        try:
            await server.check()
        except UnreachableError as error:
            silent.append(str(error))
        except EngineError as error:
            wrong.append(str(error))
    if wrong:
        raise EngineError("\n".join(wrong))
    if len(silent) == len(servers):
        raise EngineError(f"no server answers: {'; '.join(silent)}: start them, then run again")
    return silent


def ask_all(urls: Sequence[str]) -> list[ServerState | EngineError]:
    """What each of ``urls`` says of itself, or why it says nothing; takes seconds."""

    async def ask() -> list[ServerState | EngineError]:
        async with http_session() as session:
            states = await asyncio.gather(
                *(ask_state(url, session) for url in urls), return_exceptions=True
            )
        answers: list[ServerState | EngineError] = []
        for state in states:
            if isinstance(state, BaseException) and not isinstance(state, EngineError):
                raise state
            answers.append(state)
        return answers

    return asyncio.run(ask())
