"""A process with an ``sglang.Engine``, the child of a driver (see :mod:`.offline`).

SGLang ends the process it runs in when one of its own dies, and writes to standard output whenever
it likes: so the engine has a process of its own. The first argument holds the arguments of the
engine (JSON). Requests come in on standard input, answers go out on standard output, one JSON
object a line; everything that is printed goes to standard error. The end of the input ends it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

Say = Callable[[dict[str, Any]], None]

LONGEST_LINE = 2**26
"""Bytes of a request or an answer."""


def main() -> None:
    """Start the engine, say that it is ready, and serve until the input ends."""
    say = _speaker()
    try:
        from sglang.srt.entrypoints.engine import Engine

        engine = Engine(**json.loads(sys.argv[1]))
    except Exception as error:
        traceback.print_exc()
        say({"failed": str(error) or type(error).__name__})
        return
    say({"ready": engine.get_server_info()})
    engine.loop.run_until_complete(_serve(engine, say))
    engine.shutdown()


def _speaker() -> Say:
    """Writes answers to what is standard output now, and sends later prints elsewhere."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)

    def say(message: dict[str, Any]) -> None:
        answers.write(json.dumps(message, default=str).encode() + b"\n")

    return say


async def _serve(engine: Any, say: Say) -> None:
    reader = asyncio.StreamReader(limit=LONGEST_LINE)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    going_on: set[asyncio.Task[None]] = set()
    while line := await reader.readline():
        task = loop.create_task(_answer(engine, json.loads(line), say))
        going_on.add(task)
        task.add_done_callback(going_on.discard)


async def _answer(engine: Any, request: dict[str, Any], say: Say) -> None:
    request_id = request["request_id"]
    try:
        answer = await engine.async_generate(
            input_ids=request["prompt_ids"],
            sampling_params=request["sampling"],
            rid=request_id,
        )
    except Exception as error:  # the request is refused, whatever SGLang raises for it
        say({"request_id": request_id, "refused": str(error) or type(error).__name__})
        return
    reason = answer["meta_info"]["finish_reason"] or {}
    if reason.get("type") == "abort":
        say({"request_id": request_id, "aborted": reason.get("message") or "no reason given"})
    else:
        say({"request_id": request_id, "text": answer["text"]})


if __name__ == "__main__":
    main()
