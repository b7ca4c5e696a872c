"""Files that are either complete or absent, whenever the process is killed."""

from __future__ import annotations

import os
from pathlib import Path


def write_bytes(path: Path, content: bytes) -> None:
    """Write ``content`` to a temporary file beside ``path``, sync it and move it into place.

    The temporary name is fixed, so that what a killed process left is overwritten by the next try;
    two processes must not write the same path at once.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        # A full disk is noticed by a write, which does not know the name of its file.
        error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """:func:`write_bytes` of UTF-8 text."""
    write_bytes(path, text.encode("utf-8"))
