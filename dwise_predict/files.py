"""Files and folders that are either complete or absent, whenever the process is killed."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from dwise_predict.errors import DwiseError


def write_bytes(path: Path, content: bytes) -> None:
    """Write ``content`` to a temporary file beside ``path``, sync it and move it into place.

    The temporary name is fixed, so that what a killed process left is overwritten by the next try;
    two processes must not write the same path at once (see :func:`locked`).
    """
    make_folder(path.parent)
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            # The answer of /proc, where nothing can be made; the folder is there.
            raise PermissionError(errno.EPERM, "no file can be made there", str(path)) from error
        # A full disk is noticed by a write, which does not know the name of its file.
        error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def make_folder(path: Path) -> None:
    """Make a folder and its parents where they are missing.

    Raises:
        OSError: it cannot be made there; ``errno`` is one of a place that cannot be written.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from error
    except FileNotFoundError as error:
        # The answer of /proc, where nothing can be made; parents are no longer missing.
        raise PermissionError(errno.EPERM, "no folder can be made there", str(path)) from error


def write_text(path: Path, text: str) -> None:
    """:func:`write_bytes` of UTF-8 text."""
    write_bytes(path, text.encode("utf-8"))


def write_folder(path: Path, contents: Mapping[str, bytes]) -> None:
    """Write a new folder in one step: after a crash there is all of it or nothing.

    Where ``path`` is a link, the folder that it points to is written and the link stays.
    """
    path = Path(os.path.realpath(path))
    temporary = path.with_name(f".{path.name}.tmp")
    if temporary.exists():
        shutil.rmtree(temporary)
    temporary.mkdir()
    for name, content in contents.items():
        write_bytes(temporary / name, content)
    os.rename(temporary, path)
    sync_folder(path.parent)


def replace_folder(path: Path, contents: Mapping[str, bytes]) -> None:
    """Write a folder in place of the one that is there: afterwards it is the old one or the new.

    Where ``path`` is a link, the folder that it points to is replaced and the link stays. A process
    killed between moving the old folder away and the new one in leaves both beside the path, under
    ``.NAME.old`` and ``.NAME.new``; the next call puts the old one back first. Only one process
    may write a folder at a time.
    """
    path = Path(os.path.realpath(path))
    new, old = _beside(path)
    make_folder(path.parent)
    if old.exists() and not path.exists():
        os.rename(old, path)
    _remove(old)
    _remove(new)
    new.mkdir()
    for name, content in contents.items():
        write_bytes(new / name, content)
    if path.exists():
        os.rename(path, old)
    os.rename(new, path)
    sync_folder(path.parent)
    _remove(old)


def remove_folder(path: Path) -> None:
    """Remove a folder, if it is there, and what a killed :func:`replace_folder` left beside it."""
    for folder in (path, *_beside(path)):
        _remove(folder)


def _beside(path: Path) -> tuple[Path, Path]:
    """Where a new folder is made, and where the old one goes meanwhile."""
    return path.with_name(f".{path.name}.new"), path.with_name(f".{path.name}.old")


def _remove(path: Path) -> None:
    if path.is_symlink():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def sync_folder(path: Path) -> None:
    """Make renames inside ``path`` durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(folder: Path, refusal: DwiseError | None) -> Iterator[None]:
    """Hold ``folder`` for writing; raise ``refusal`` when another process holds it, None waits.

    The operating system drops the lock with the process.
    """
    import fcntl  # absent on Windows, where these folders can be read but not written

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (fcntl.LOCK_NB if refusal else 0))
        except BlockingIOError as error:
            assert refusal is not None
            raise refusal from error
        yield
    finally:
        os.close(descriptor)
