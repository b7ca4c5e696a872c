"""What the HTTP client makes of answers that no SGLang server but proxies and routers give."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from dwise_predict.engines.protocol import EngineRequest
from dwise_predict.engines.sglang_engine.servers import (
    HttpServer,
    ask_all,
    check_servers,
    http_session,
)
from dwise_predict.engines.sglang_engine.state import ServerState
from dwise_predict.engines.sglang_engine.targets import BusyError, RefusedError, UnreachableError
from dwise_predict.errors import EngineError

CLOSED = "http://127.0.0.1:9"


class Proxy(BaseHTTPRequestHandler):
    """Says what :attr:`replies` holds for a path."""

    replies: dict[str, tuple[int, bytes]]

    def do_GET(self) -> None:
        status, body = self.replies.get(self.path, (404, b"not here"))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def proxy() -> Iterator[tuple[str, dict[str, tuple[int, bytes]]]]:
    """An address, and what it replies by path."""
    replies: dict[str, tuple[int, bytes]] = {}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("OneProxy", (Proxy,), {"replies": replies}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", replies
    server.shutdown()
    server.server_close()


def state_of(url: str) -> ServerState | EngineError:
    (answer,) = ask_all([url])
    return answer


def answer_of(url: str) -> str:
    async def ask() -> str:
        async with http_session() as session:
            server = HttpServer(url, session, None, lambda state: [], lambda ids: f"{list(ids)}")
            return await server.answer(EngineRequest("r", (1, 2), 8))

    return asyncio.run(ask())


def test_nobody_there() -> None:
    assert isinstance(state_of(CLOSED), UnreachableError)
    with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:9"):
        answer_of(CLOSED)


def test_a_router_that_does_not_know_the_address_but_is_well(
    proxy: tuple[str, dict[str, tuple[int, bytes]]],
) -> None:
    url, replies = proxy
    assert isinstance(state_of(url), UnreachableError)
    replies["/health"] = (200, b"OK")
    state = state_of(url)
    assert isinstance(state, ServerState) and state.routed


@pytest.mark.parametrize(
    ("status", "body"), [(503, b""), (200, b"<html>"), (200, b"[]"), (401, b"")]
)
def test_what_is_no_server(
    proxy: tuple[str, dict[str, tuple[int, bytes]]], status: int, body: bytes
) -> None:
    url, replies = proxy
    replies["/server_info"] = (status, body)
    assert isinstance(state_of(url), UnreachableError)


def test_a_router_without_servers_is_tried_again_and_a_refusal_is_not(
    proxy: tuple[str, dict[str, tuple[int, bytes]]],
) -> None:
    url, replies = proxy
    replies["/generate"] = (503, b"no healthy workers")
    with pytest.raises(UnreachableError, match="answers 503"):
        answer_of(url)
    replies["/generate"] = (400, b"too long")
    with pytest.raises(RefusedError, match="400 too long"):
        answer_of(url)
    for busy in ((429, b"slow down"), (400, b"Duplicate request ID detected: r1")):
        replies["/generate"] = busy
        with pytest.raises(BusyError):
            answer_of(url)


def test_tokens_are_decoded_where_the_server_does_not(
    proxy: tuple[str, dict[str, tuple[int, bytes]]],
) -> None:
    url, replies = proxy
    replies["/generate"] = (200, b'{"output_ids": [5, 6], "meta_info": {"finish_reason": null}}')
    assert answer_of(url) == "[5, 6]"


def test_servers_that_do_not_answer_are_told_and_none_is_too_few(
    proxy: tuple[str, dict[str, tuple[int, bytes]]],
) -> None:
    url, replies = proxy
    replies["/server_info"] = (200, b'{"internal_states": [{}]}')

    def check(*urls: str, faults: list[str]) -> list[str]:
        async def ask() -> list[str]:
            async with http_session() as session:
                return await check_servers(
                    [HttpServer(u, session, None, lambda _: faults, str) for u in urls]
                )

        return asyncio.run(ask())

    (silent,) = check(CLOSED, url, faults=[])
    assert CLOSED in silent
    with pytest.raises(EngineError, match="no server answers"):
        check(CLOSED, faults=[])
    with pytest.raises(EngineError, match=f"{url} cannot be used: wrong model"):
        check(CLOSED, url, faults=["wrong model"])
