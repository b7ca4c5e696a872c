"""Arrivals and prompt lengths of public serving traces, with rounds drawn from a profile.

Traces of autoregressive serving know nothing of denoising, so only what is the same for every model
is taken from them.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dwise_predict.errors import SimulationError
from dwise_predict.simulation.limits import MAX_REQUESTS, check_arrivals
from dwise_predict.simulation.sources.source import FACTS_SCHEMA, Source, facts_table
from dwise_predict.simulation.workload import FloatArray, IntArray
from dwise_predict.validation import describe, shortened
from dwise_predict.work import first_block_masked, prefill_blocks

_AZURE_TIME, _AZURE_TOKENS = "TIMESTAMP", "ContextTokens"
# UTC in the years that datetime64[ns] holds, with the seven decimals that datetime does not read
# before Python 3.11; some traces end in +00:00.
_UTC = re.compile(
    r"(?:1[7-9]|2[01])\d\d-\d\d-\d\d(?:[ T]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|\+00:00)?)?", re.ASCII
)
_TOKEN_DIGITS = 10


@dataclass(frozen=True)
class Trace:
    """N arrivals in seconds from the first, float64 [N], and their prompt tokens, int64 [N]."""

    name: str
    arrival_s: FloatArray
    prompt_tokens: IntArray


def read_trace(path: Path, limit: int | None = None) -> Trace:
    """Read a trace, or its first ``limit`` requests, in order of arrival.

    ``.jsonl``: Mooncake's format (``timestamp`` in ms, ``input_length``). ``.csv``: Azure's LLM
    inference traces (``TIMESTAMP``, ``ContextTokens``). Other columns are not used.

    Raises SimulationError, naming file and line, when it is no such file or holds more than
    :data:`~dwise_predict.simulation.limits.MAX_REQUESTS`.
    """
    most = MAX_REQUESTS + 1
    readers: dict[str, Callable[[Path], Iterator[tuple[float, int]]]] = {
        ".jsonl": _mooncake,
        ".csv": _azure,
    }
    if path.suffix not in readers:
        raise SimulationError(
            f"{path}: a trace is a .jsonl file (Mooncake) or a .csv file (Azure), "
            f"not {path.suffix or 'a file without suffix'}"
        )
    if path.exists() and not path.is_file():
        raise SimulationError(f"the trace {path} is no file that can be read to its end")
    try:
        entries = list(islice(readers[path.suffix](path), min(limit or most, most)))
    except csv.Error as error:
        raise SimulationError(f"{path} is no CSV file: {error}") from error
    except OSError as error:
        raise SimulationError(f"cannot read the trace {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SimulationError(f"{path} is no text in UTF-8: {error.reason}") from error
    if not entries:
        raise SimulationError(f"{path} holds no request")
    if len(entries) > MAX_REQUESTS:
        raise SimulationError(
            f"{path} holds more than {MAX_REQUESTS:,} requests; take some with --limit"
        )
    entries.sort(key=lambda entry: entry[0])
    arrivals = np.array([seconds for seconds, _ in entries])
    tokens = np.array([tokens for _, tokens in entries], dtype=np.int64)
    try:
        check_arrivals(float(arrivals[-1] - arrivals[0]))
    except SimulationError as error:
        raise SimulationError(f"{path}: {error}") from error
    return Trace(path.name, arrivals - arrivals[0], tokens)


def trace_source(trace: Trace, drawn_from: Source, seed: int) -> Source:
    """The requests of ``trace``, each with the rounds of a random request of ``drawn_from``.

    Category, budget, output and its rounds by block come from the drawn request; arrival and
    prompt from the trace. The predictors' estimates are those of the drawn request.
    """
    n, size = len(trace.arrival_s), drawn_from.block_size
    drawn = np.random.default_rng(seed).integers(len(drawn_from), size=n)
    prompts = trace.prompt_tokens.tolist()
    width = len(str(n - 1))
    facts = drawn_from.facts.take(drawn)
    columns = {
        name: facts[name].to_pylist()
        for name in FACTS_SCHEMA.names
        if name not in ("split", "prompt_sha256", "words", "newlines", "answer_correct")
    } | {
        "request_id": [f"trace-{i:0{width}}" for i in range(n)],
        "dataset": [trace.name] * n,
        "prompt_tokens": prompts,
        "prompt_blocks": [prefill_blocks(tokens, size) for tokens in prompts],
        "first_block_masked": [first_block_masked(tokens, size) for tokens in prompts],
    }
    return Source(
        name=f"{n} requests of {trace.name}, rounds drawn from {drawn_from.name}",
        block_size=size,
        facts=facts_table(columns, n),
        arrival_s=trace.arrival_s,
        profile=drawn_from.profile,
        rows=None if drawn_from.rows is None else drawn_from.rows[drawn],
    )


class _MooncakeLine(BaseModel):
    model_config = ConfigDict(strict=True)

    timestamp: float = Field(ge=0, allow_inf_nan=False)
    input_length: int = Field(ge=1, le=2**31 - 1)


def _mooncake(path: Path) -> Iterator[tuple[float, int]]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                entry = _MooncakeLine.model_validate_json(line)
            except ValidationError as error:
                finding = describe(error, _MooncakeLine, "key")
                raise SimulationError(
                    f"{path}:{number}: {finding}; a line of a Mooncake trace has timestamp (ms) "
                    "and input_length (tokens)"
                ) from error
            yield entry.timestamp / 1e3, entry.input_length


def _azure(path: Path) -> Iterator[tuple[float, int]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file)
        header = rows.fieldnames or []
        if absent := [name for name in (_AZURE_TIME, _AZURE_TOKENS) if name not in header]:
            raise SimulationError(
                f"{path}:1: the column {' and '.join(absent)} is missing; an Azure trace starts "
                "with the line TIMESTAMP,ContextTokens,GeneratedTokens"
            )
        for row in rows:
            place = f"{path}:{rows.line_num}"
            yield _seconds(row[_AZURE_TIME], place), _tokens(row[_AZURE_TOKENS], place)


def _seconds(text: str | None, place: str) -> float:
    plain = (text or "").strip()
    try:
        if not _UTC.fullmatch(plain):
            raise ValueError(plain)
        moment = np.datetime64(plain.removesuffix("+00:00").removesuffix("Z"), "ns")
    except ValueError as error:
        raise SimulationError(
            f"{place}: {_AZURE_TIME} is {shortened(text)}, expected a time in UTC such as "
            "2023-11-16 18:17:03.979960, in a year from 1700 to 2199"
        ) from error
    return float(moment.astype(np.int64)) / 1e9


def _tokens(text: str | None, place: str) -> int:
    value = (text or "").strip()
    digits = value.isascii() and value.isdigit() and len(value) <= _TOKEN_DIGITS
    if not digits or not 1 <= int(value) < 2**31:
        raise SimulationError(
            f"{place}: {_AZURE_TOKENS} is {shortened(text)}, expected a whole number of tokens, "
            "at least 1 and below 2^31"
        )
    return int(value)
