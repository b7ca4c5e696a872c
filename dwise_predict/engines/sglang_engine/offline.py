"""An ``sglang.Engine`` of this campaign, in a child process that dies with it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dwise_predict.engines.protocol import EngineRequest
from dwise_predict.engines.sglang_engine.state import ServerState, server_state
from dwise_predict.engines.sglang_engine.targets import (
    AbortedError,
    RefusedError,
    sampling_parameters,
)
from dwise_predict.engines.sglang_engine.worker import LONGEST_LINE
from dwise_predict.errors import EngineError

_WORKER = "dwise_predict.engines.sglang_engine.worker"
_PATIENCE = 60.0
"""Seconds that the engine may take to shut down."""
_SHOWN = 12
"""Last lines of the log in an error message."""


class OfflineEngine:
    """The driver's side of a worker process; open one with :func:`offline_engine`."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path, state: ServerState) -> None:
        self.name = "SGLang"
        self.capacity = sys.maxsize
        self.state = state
        self._process = process
        self._log = log
        self._waiting: dict[str, asyncio.Future[str]] = {}
        self._reader = asyncio.ensure_future(self._read())

    async def check(self) -> None:
        """Raise EngineError when the engine has ended."""
        if self._reader.done():
            raise await _ended(self._process, self._log)

    async def answer(self, request: EngineRequest) -> str:
        """Serve one request; raises EngineError when the engine ends before."""
        await self.check()
        assert self._process.stdin is not None
        asked = {
            "request_id": request.request_id,
            "prompt_ids": request.prompt_ids,
            "sampling": sampling_parameters(request),
        }
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting[request.request_id] = future
        with contextlib.suppress(ConnectionError):  # the reader notices the end
            self._process.stdin.write(json.dumps(asked).encode() + b"\n")
            await self._process.stdin.drain()
        return await future

    async def close(self) -> None:
        """End the engine and everything it started."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), _PATIENCE)
        except (TimeoutError, asyncio.TimeoutError):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()
        self._reader.cancel()

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            said = json.loads(line)
            future = self._waiting.pop(said["request_id"])
            if future.done():
                continue
            if "refused" in said:
                future.set_exception(RefusedError(said["refused"]))
            elif "aborted" in said:
                future.set_exception(AbortedError(said["aborted"]))
            else:
                future.set_result(said["text"])
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(await _ended(self._process, self._log))


@asynccontextmanager
async def offline_engine(
    arguments: Mapping[str, Any], variables: Mapping[str, str], log: Path
) -> AsyncIterator[OfflineEngine]:
    """Start an engine; it ends with the context, and with this process if that is killed.

    Args:
        arguments: keyword arguments of ``sglang.Engine``.
        variables: of its environment, besides this process's own.
        log: file that what SGLang prints is appended to.

    Raises:
        EngineError: SGLang does not start; the reason and the log are named.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith("DWISE_")}
    with log.open("ab") as file:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            _WORKER,
            json.dumps(arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=file,
            env=own | dict(variables),
            limit=LONGEST_LINE,
            # Ctrl-C is for the driver, which then ends the engine.
            start_new_session=True,
        )
    try:
        engine = OfflineEngine(process, log, await _started(process, log))
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        raise
    try:
        yield engine
    finally:
        await engine.close()


async def _started(process: asyncio.subprocess.Process, log: Path) -> ServerState:
    assert process.stdout is not None
    line = await process.stdout.readline()
    if not line:
        raise await _ended(process, log)
    said = json.loads(line)
    if "failed" in said:
        raise EngineError(f"SGLang does not start: {said['failed']}; its log is {log}")
    return server_state(said["ready"])


async def _ended(process: asyncio.subprocess.Process, log: Path) -> EngineError:
    status = await process.wait()
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    last = "\n  ".join(line for line in lines[-_SHOWN:] if line.strip())
    return EngineError(
        f"SGLang ended (status {status}); what was served is kept, continue with --resume. The "
        f"end of its log {log}:\n  {last}"
    )
