"""Writing and reading results folders."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pydantic import ValidationError

from dwise_predict.errors import ResultsError
from dwise_predict.files import remove_folder, replace_folder
from dwise_predict.profile.encoding import table_bytes
from dwise_predict.results.records import (
    REQUESTS_FILE,
    REQUESTS_SCHEMA,
    ROUNDS_FILE,
    ROUNDS_SCHEMA,
    SUMMARY_FILE,
    Summary,
)
from dwise_predict.tables import read_table
from dwise_predict.validation import describe

_FILES = {REQUESTS_FILE, ROUNDS_FILE, SUMMARY_FILE}


@dataclass(frozen=True)
class Results:
    """One workload served under one policy.

    ``requests`` and ``rounds`` have the schemas of :mod:`dwise_predict.results.records`.
    """

    requests: pa.Table
    rounds: pa.Table
    summary: Summary


def write_results(folder: Path, results: Results) -> None:
    """Write a results folder, see :func:`~dwise_predict.files.replace_folder`.

    Raises ResultsError when ``folder`` holds anything else or cannot be written.
    """
    check_writable(folder)
    contents = {
        REQUESTS_FILE: table_bytes(results.requests.cast(REQUESTS_SCHEMA)),
        ROUNDS_FILE: table_bytes(results.rounds.cast(ROUNDS_SCHEMA)),
        SUMMARY_FILE: results.summary.model_dump_json(indent=2).encode() + b"\n",
    }
    try:
        replace_folder(folder, contents)
    except OSError as error:
        raise ResultsError(
            f"cannot write the results {folder}: {error.strerror or error}; free some space or "
            "choose another place"
        ) from error


def remove_results(folder: Path) -> None:
    """Remove a results folder, if it is there, and what a killed process left beside it.

    Raises ResultsError when ``folder`` holds anything else or cannot be removed.
    """
    check_writable(folder)
    try:
        remove_folder(folder)
    except OSError as error:
        raise ResultsError(
            f"cannot remove the results {folder}: {error.strerror or error}; choose another place"
        ) from error


def check_writable(folder: Path) -> None:
    """Raise ResultsError when ``folder`` is something that results must not replace."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ResultsError(f"{folder} is a file; choose another place for the results")
    if strangers := sorted({path.name for path in folder.iterdir()} - _FILES):
        raise ResultsError(
            f"{folder} holds {', '.join(strangers[:3])}, so it is no results folder; choose another"
        )


def read_results(folder: Path | str) -> Results:
    """Read a results folder.

    Raises ResultsError, naming the file, when one is missing, damaged or does not fit the others.
    """
    folder = Path(folder)
    requests = _read(folder / REQUESTS_FILE, REQUESTS_SCHEMA)
    rounds = _read(folder / ROUNDS_FILE, ROUNDS_SCHEMA)
    path = folder / SUMMARY_FILE
    try:
        summary = Summary.model_validate_json(path.read_bytes())
    except OSError as error:
        raise _unreadable(path, error) from error
    except ValidationError as error:
        finding = describe(error, Summary, "key")
        raise ResultsError(f"{path} is damaged or of another version: {finding}") from error
    for name, said, found in (
        ("requests", summary.n, requests.num_rows),
        ("rounds", summary.rounds, rounds.num_rows),
    ):
        if said != found:
            raise ResultsError(f"{path} says {said} {name}, but {name}.parquet holds {found}")
    return Results(requests, rounds, summary)


def _read(path: Path, schema: pa.Schema) -> pa.Table:
    try:
        table = read_table(path)
    except pa.ArrowException as error:
        raise ResultsError(f"{path} is no Parquet file, or damaged: {error}") from error
    except OSError as error:
        # Arrow tells of damaged pages by OSErrors without a number.
        if error.errno is None:
            raise ResultsError(f"{path} is damaged: {error}") from error
        raise _unreadable(path, error) from error
    if not table.schema.equals(schema):
        names = sorted({field.name for field in set(table.schema) ^ set(schema)})
        raise ResultsError(
            f"{path} is no table of results: it differs in the columns {', '.join(names)}"
        )
    return table


def _unreadable(path: Path, error: OSError) -> ResultsError:
    return ResultsError(
        f"cannot read {path}: {error.strerror}; a results folder holds {', '.join(sorted(_FILES))}"
    )
