"""A case served by SGLang's HTTP server, and results from what the plugin recorded of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dwise_predict.assembly import join_recordings
from dwise_predict.engines.protocol import EngineRequest
from dwise_predict.engines.sglang_engine.arguments import (
    command_flags,
    server_arguments,
    write_algorithm_config,
)
from dwise_predict.engines.sglang_engine.servers import HttpServer, http_session
from dwise_predict.engines.sglang_engine.targets import UnreachableError
from dwise_predict.engines.sglang_engine.tokenizer import ModelTokenizer
from dwise_predict.errors import EngineError
from dwise_predict.experiments.base import Asked, Base
from dwise_predict.experiments.case import Case
from dwise_predict.experiments.settings import Settings
from dwise_predict.files import make_folder
from dwise_predict.results import Conditions, Results, summarise
from dwise_predict.results.records import REQUESTS_SCHEMA, ROUNDS_SCHEMA, TIMES
from dwise_predict.simulation.run import Arrivals
from dwise_predict.workload.answers import answer_correct

if TYPE_CHECKING:
    from aiohttp import ClientSession

_PATIENCE_S = 600.0
"""Seconds that a server may take to start."""
_QUIET_S = 1.0
"""Seconds for what asking after its health leaves behind."""
_SHOWN = 2000
"""Last characters of its log in an error message."""
_LAUNCH = [sys.executable, "-m", "sglang.launch_server"]

SERVED = ("SGLang", "FCFS mixed", "DWISE")
"""Runs that the plugin has: the others rank by what bundles do not predict."""


def serve_by_sglang(
    settings: Settings, base: Base, case: Case, asked: Asked, arrivals: Arrivals
) -> Results:
    """Start a server, send every request when it arrives, and read what was recorded.

    Raises EngineError when SGLang is missing, does not start or ends, or refuses a request.
    """
    if find_spec("sglang") is None:
        raise EngineError("SGLang is not installed here: pip install 'dwise-predict[sglang]'")
    recipe = settings.recipe_of(base.seed)
    tokenizer = ModelTokenizer(recipe.model)
    prompts = [
        EngineRequest(
            request.request_id,
            tuple(tokenizer.encode(request.messages)),
            request.max_new_tokens or recipe.decoding.budget_tokens,
            arrival_s,
        )
        for request, arrival_s in zip(asked.requests, arrivals.seconds.tolist(), strict=True)
    ]
    folder = settings.out / "sglang" / "recordings" / f"seed-{base.seed}-{case.name}"
    if folder.exists():
        shutil.rmtree(folder)  # of a server that was killed
    make_folder(folder)
    arguments = server_arguments(recipe, write_algorithm_config(recipe.decoding, folder))
    command, variables = _command(base, case, recipe.engine.slots, folder / "recording")
    with _server(command, arguments, variables, folder / "server.log") as url:
        texts, state = asyncio.run(_send(url, prompts, tokenizer, folder / "server.log"))
    results = _results(folder / "recording", base, case, asked, texts, state, arrivals.pattern)
    shutil.rmtree(folder)
    return results


def _command(
    base: Base, case: Case, slots: int, recording: Path
) -> tuple[list[str], dict[str, str]]:
    """The beginning of the command that starts the server, and its variables."""
    common = {"DWISE_STRICT": "1"}
    record = {"DWISE_PROFILE": str(recording.absolute())}
    if case.run == "SGLang":
        return _LAUNCH, {**common, **record, "DWISE_MODE": "profile"}
    if case.run == "FCFS mixed":
        policy = {"DWISE_MODE": "schedule", "DWISE_POLICY": "fcfs", "DWISE_SLOTS": str(slots)}
        return _LAUNCH, {**common, **record, **policy}
    words = ["serve", "--bundle", str(base.folder.bundle.absolute()), "--slots", str(slots)]
    words += ["--resident-multiplier", str(case.multiplier)]
    words += ["--record", str(recording.absolute()), "--"]
    return [str(Path(sys.executable).with_name("dwise")), *words], {}


@contextmanager
def _server(
    command: Sequence[str], arguments: Mapping[str, Any], variables: Mapping[str, str], log: Path
) -> Iterator[str]:
    """A server that is on its way up, by its address; all its processes end with the context."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    own = {name: value for name, value in os.environ.items() if not name.startswith("DWISE_")}
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*command, *command_flags({**arguments, "port": port})],
            env={**own, **variables},
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


async def _send(
    url: str, prompts: Sequence[EngineRequest], tokenizer: ModelTokenizer, log: Path
) -> tuple[list[str], dict[str, Any]]:
    """Answers in the order of ``prompts``, and what the plugin then says of itself."""
    async with http_session() as session:
        server = HttpServer(url, session, len(prompts), lambda state: [], tokenizer.decode)
        await _up(server, session, log)
        started = time.perf_counter()

        async def one(request: EngineRequest) -> str:
            await asyncio.sleep(max(0.0, request.arrival_s - (time.perf_counter() - started)))
            return await server.answer(request)

        texts = await asyncio.gather(*map(one, prompts))
        async with session.get(f"{url}/server_info") as response:
            info = await response.json(content_type=None)
    return list(texts), info["internal_states"][0]["dwise"]


async def _up(server: HttpServer, session: ClientSession, log: Path) -> None:
    """Wait until the server answers and has warmed up: its own first request is not to be timed."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            await server.check()
            async with session.get(f"{server.name}/health") as response:
                if response.status == HTTPStatus.OK:
                    await asyncio.sleep(_QUIET_S)
                    return
        except UnreachableError as error:
            if time.monotonic() > deadline or "Traceback" in _end(log):
                raise EngineError(f"SGLang does not start:\n{_end(log)}") from error
        await asyncio.sleep(0.5)


def _end(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-_SHOWN:]


def _results(
    recording: Path,
    base: Base,
    case: Case,
    asked: Asked,
    texts: Sequence[str],
    state: Mapping[str, Any],
    arrival: str,
) -> Results:
    """Times are the scheduler's, from the first arrival on; earlier rounds are SGLang's warm-up."""
    joined = join_recordings([recording])
    records = [joined.records[request.request_id] for request in asked.requests]
    first = min(record["arrival_s"] for record in records)
    rows = []
    facts = asked.source.facts.to_pylist()
    for fact, record, request, text in zip(facts, records, asked.requests, texts, strict=True):
        row = {**fact, **{k: v for k, v in record.items() if k in REQUESTS_SCHEMA.names}}
        row |= {name: None if record[name] is None else record[name] - first for name in TIMES}
        row |= {name: fact[name] for name in ("words", "newlines", "prompt_sha256")}
        right = None if request.answer is None else answer_correct(request.answer, text)
        rows.append({"admission_estimate": None, "refined_estimate": None, **row,
                     "answer_correct": right})  # fmt: skip
    rounds = [
        {**{name: r[name] for name in ROUNDS_SCHEMA.names}, "start_s": r["start_s"] - first}
        for r in joined.rounds
        if r["start_s"] >= first - r["wall_ms"] / 1e3
    ]
    requests = pa.Table.from_pylist(rows, schema=REQUESTS_SCHEMA)
    table = pa.Table.from_pylist(rounds, schema=ROUNDS_SCHEMA)
    conditions = Conditions(
        policy=case.scheduling.setup.policy,
        former=case.scheduling.setup.former,
        engine="sglang",
        arrival=arrival,
        slots=base.profile.run.engine.slots,
        preemptions=int(state.get("preemptions", 0)),
        reached_zero=int(state.get("zero_clamps", 0)),
        blocked_by_cap=int(state.get("admission_blocked_cap", 0)),
    )
    return Results(requests, table, summarise(requests, table, conditions))
