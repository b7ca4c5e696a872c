"""Bytes into a profile folder: atomic, durable, hashed."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import save as save_tensors

from dwise_predict.errors import ProfileError
from dwise_predict.profile.records import HIDDEN_KEY

Hidden = npt.NDArray[np.float16]


def table_bytes(table: pa.Table) -> bytes:
    """A table as the bytes of a Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    content: bytes = sink.getvalue().to_pybytes()
    return content


def hidden_bytes(hidden: Hidden) -> bytes:
    """Hidden means [N, hidden] as the bytes of a safetensors file."""
    return save_tensors({HIDDEN_KEY: np.ascontiguousarray(hidden)})


def digest(content: bytes) -> str:
    """SHA-256 as hex."""
    return hashlib.sha256(content).hexdigest()


def write_file(path: Path, content: bytes) -> None:
    """Write a file in one step: after a crash there is the old content or the new one."""
    temporary = path.with_name(f".tmp-{path.name}")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    _sync_folder(path.parent)


def write_folder(path: Path, contents: Mapping[str, bytes]) -> None:
    """Write a new folder in one step: after a crash there is all of it or nothing."""
    temporary = path.with_name(f".tmp-{path.name}")
    if temporary.exists():
        shutil.rmtree(temporary)
    temporary.mkdir()
    for name, content in contents.items():
        write_file(temporary / name, content)
    os.rename(temporary, path)
    _sync_folder(path.parent)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold ``folder`` for writing, so that two processes never write the same profile.

    The operating system drops the lock with the process. Raises ProfileError when another
    process holds it.
    """
    import fcntl  # absent on Windows, where profiles can be read but not written

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ProfileError(
                f"another process is writing the profile {folder}: wait for it, or choose "
                "another folder"
            ) from error
        yield
    finally:
        os.close(descriptor)


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
