"""Reading profiles, with every file checked against the hash it was written with."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import BaseModel, ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors

from dwise_predict.errors import ProfileError
from dwise_predict.profile.encoding import Hidden, digest
from dwise_predict.profile.records import (
    DATA_FILES,
    HIDDEN_FILE,
    HIDDEN_KEY,
    MAX_BYTES,
    MAX_JSON_BYTES,
    REQUESTS_FILE,
    REQUESTS_SCHEMA,
    ROUNDS_FILE,
    ROUNDS_SCHEMA,
    RUN_FILE,
    SHARDS_FOLDER,
    RunInfo,
)
from dwise_predict.profile.values import wrong_request, wrong_round
from dwise_predict.run_folder import is_made_again
from dwise_predict.tables import read_table
from dwise_predict.validation import describe, shortened

Model = TypeVar("Model", bound=BaseModel)


class Records(NamedTuple):
    """Requests, rounds and hidden means [N, hidden] of a shard or of a whole profile."""

    requests: pa.Table
    rounds: pa.Table
    hidden: Hidden


@dataclass(frozen=True)
class Profile:
    """A finished profile; ``hidden[i]`` (float16 [N, hidden]) belongs to row i of ``requests``."""

    run: RunInfo
    requests: pa.Table
    rounds: pa.Table
    hidden: Hidden


def read_profile(folder: Path | str) -> Profile:
    """Read a profile folder.

    Raises ProfileError when it is unfinished, no profile, of another format version, damaged, or
    holds what cannot be.
    """
    folder = Path(folder)
    run = read_run_info(folder)
    remedy = _remedy(folder)
    records = read_records(folder, run.files, remedy)
    shape = (run.counts.requests, run.fingerprint.hidden_size)
    if records.hidden.shape != shape or records.rounds.num_rows != run.counts.rounds:
        raise ProfileError(f"{folder} holds other counts than its {RUN_FILE} says; {remedy}")
    if finding := wrong_request(records.requests, records.hidden):
        raise ProfileError(f"{folder / REQUESTS_FILE}: {finding}; {remedy}")
    if finding := wrong_round(records.rounds):
        raise ProfileError(f"{folder / ROUNDS_FILE}: {finding}; {remedy}")
    return Profile(run, *records)


def token_bins_of(requests: pa.Table) -> npt.NDArray[np.object_]:
    """Each request's ``token_bins`` as a uint16 array, ``[n]``; None where it has none."""
    bins = np.empty(requests.num_rows, dtype=np.object_)
    for row, recorded in enumerate(requests["token_bins"]):
        bins[row] = recorded.values.to_numpy() if recorded.is_valid else None
    return bins


def read_run_info(folder: Path) -> RunInfo:
    """run.json of a finished profile; raises ProfileError when there is none."""
    if not (folder / RUN_FILE).is_file():
        if (folder / SHARDS_FOLDER).is_dir():
            raise ProfileError(f"the profile {folder} is unfinished: run again with --resume")
        raise ProfileError(f"{folder} is no profile folder: it holds no {RUN_FILE}")
    return read_json(folder / RUN_FILE, RunInfo, _remedy(folder))


def _remedy(folder: Path) -> str:
    """What helps with a damaged profile: only a run makes its own again."""
    if is_made_again(folder):
        return start_over(folder)
    return "get the profile again from where it came, or make it again in a new folder"


def start_over(folder: Path) -> str:
    """What to do about a folder that is known to be a profile's, and cannot be continued."""
    return f"delete the folder {folder} and run again with --resume"


def read_json(path: Path, kind: type[Model], remedy: str) -> Model:
    """A record from its JSON file; raises ProfileError, ending with ``remedy``, when damaged."""
    try:
        return kind.model_validate_json(_read(path, MAX_JSON_BYTES, remedy))
    except OSError as error:
        raise ProfileError(f"cannot read {path}: {error.strerror}; {remedy}") from error
    except ValidationError as error:
        finding = describe(error, kind, "key")
        raise ProfileError(
            f"{path} is damaged or of another version ({finding}); {remedy}"
        ) from error


def read_records(folder: Path, sha256: Mapping[str, str], remedy: str) -> Records:
    """Records of a shard or profile folder, each file checked against its SHA-256.

    ``sha256`` may come from a stranger: exactly the data files of a profile are read, whatever
    else it names.

    Raises ProfileError, ending with ``remedy``, when one is missing, damaged or of another schema,
    or when other files are named.
    """
    if sha256.keys() != set(DATA_FILES):
        raise ProfileError(
            f"{folder} lists the files {shortened(sorted(sha256), 200)}, but a profile has "
            f"{sorted(DATA_FILES)}; {remedy}"
        )
    contents = _read_verified(folder, sha256, remedy)
    records = Records(
        requests=_read_table(contents[REQUESTS_FILE], REQUESTS_SCHEMA, folder / REQUESTS_FILE),
        rounds=_read_table(contents[ROUNDS_FILE], ROUNDS_SCHEMA, folder / ROUNDS_FILE),
        hidden=_read_hidden(contents[HIDDEN_FILE], folder / HIDDEN_FILE),
    )
    if records.requests.num_rows != len(records.hidden):
        raise ProfileError(
            f"{folder} holds {records.requests.num_rows} requests but "
            f"{len(records.hidden)} hidden means; {remedy}"
        )
    return records


def _read_table(content: bytes, schema: pa.Schema, path: Path) -> pa.Table:
    """A table from the bytes of the Parquet file ``path``."""
    try:
        table = read_table(pa.BufferReader(content))
    except pa.ArrowException as error:
        raise ProfileError(f"{path} is no Parquet file: {error}") from error
    if schema is REQUESTS_SCHEMA and "token_bins" not in table.column_names:
        # A later addition, which profiles made before it lack.
        place, field = schema.get_field_index("token_bins"), schema.field("token_bins")
        table = table.add_column(place, field, pa.nulls(table.num_rows, field.type))
    if not table.schema.equals(schema):
        names = {field.name for field in set(table.schema) ^ set(schema)}
        raise ProfileError(f"{path}: columns or types differ from version 1: {sorted(names)}")
    return table


def _read_hidden(content: bytes, path: Path) -> Hidden:
    """Hidden means float16 [N, hidden] from the bytes of the safetensors file ``path``."""
    try:
        hidden = load_tensors(content).get(HIDDEN_KEY)
    except SafetensorError as error:
        raise ProfileError(f"{path} is no safetensors file: {error}") from error
    if hidden is None or hidden.dtype != np.float16 or hidden.ndim != 2:
        raise ProfileError(f"{path}: expected one float16 matrix called {HIDDEN_KEY!r}")
    return hidden


def _read_verified(folder: Path, sha256: Mapping[str, str], remedy: str) -> dict[str, bytes]:
    """Content of the data files.

    Raises ProfileError, ending with ``remedy``, when one is missing or not what was written.
    """
    contents = {}
    left = MAX_BYTES
    for name in DATA_FILES:
        path = folder / name
        try:
            contents[name] = _read(path, left, remedy)
        except OSError as error:
            raise ProfileError(f"cannot read {path}: {error.strerror}; {remedy}") from error
        left -= len(contents[name])
        if digest(contents[name]) != sha256[name]:
            raise ProfileError(f"{path} is corrupted (its SHA-256 changed); {remedy}")
    return contents


def _read(path: Path, limit: int, remedy: str) -> bytes:
    """Content of a regular file of at most ``limit`` bytes; raises OSError, ProfileError."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ProfileError(f"{path} is no file; {remedy}")
    if status.st_size > limit:
        raise ProfileError(
            f"{path} has {status.st_size} bytes, more than the {limit} it may have; {remedy}"
        )
    with path.open("rb") as file:
        # One more than it has: a file that is growing fails the hash, not the memory.
        return file.read(status.st_size + 1)
