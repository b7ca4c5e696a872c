"""Bundle folders as bytes: written in one step, read with every file checked."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import from_json

from dwise_predict.bundle.schema import (
    CONFIG_FILE,
    FILES,
    FORMAT,
    FORMAT_VERSION,
    BundleConfig,
    FileEntry,
)
from dwise_predict.errors import BundleError
from dwise_predict.files import sync_folder, write_bytes

_MAX_CONFIG_BYTES = 16 * 2**20
_MAX_FILE_BYTES = 2 * 2**30


def entry(content: bytes) -> FileEntry:
    """Size and hash of a file."""
    return FileEntry(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())


def can_hold_bundle(folder: Path) -> bool:
    """Whether a bundle can be written there: the path is free, an empty folder or a bundle."""
    return not folder.exists() or (
        folder.is_dir() and ((folder / CONFIG_FILE).is_file() or not any(folder.iterdir()))
    )


def write_bundle_folder(folder: Path, config: BundleConfig, files: Mapping[str, bytes]) -> None:
    """Write a whole bundle folder, replacing one that is there: afterwards it is old or new.

    Files are written to a temporary folder beside it, which is then renamed. A process killed
    between moving the old folder away and the new one in leaves both beside the path, under
    ``.NAME.old`` and ``.NAME.new``; the next write cleans up.

    Raises:
        BundleError: the folder is something else than a bundle, or cannot be written.
    """
    new, old = (folder.with_name(f".{folder.name}.{suffix}") for suffix in ("new", "old"))
    if not can_hold_bundle(folder):
        raise BundleError(f"{folder} exists and is no bundle; choose another place")
    try:
        for leftover in (new, old):
            shutil.rmtree(leftover, ignore_errors=True)
        new.mkdir(parents=True)
        for name, content in files.items():
            write_bytes(new / name, content)
        write_bytes(new / CONFIG_FILE, (config.model_dump_json(indent=1) + "\n").encode())
        if folder.exists():
            os.rename(folder, old)
        os.rename(new, folder)
        sync_folder(folder.parent)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise BundleError(
            f"cannot write the bundle {folder}: {error.strerror or error}; free space or choose "
            "another place"
        ) from error


def read_bundle_folder(folder: Path) -> tuple[BundleConfig, dict[str, bytes]]:
    """Read config.json and all other files; each is read once and checked against its hash.

    Raises:
        BundleError: a file is missing, damaged or of another format version.
    """
    config = _read_config(folder / CONFIG_FILE)
    if set(config.files) != set(FILES):
        raise BundleError(
            f"{folder / CONFIG_FILE} lists the files {sorted(config.files)}, but a bundle has "
            f"{sorted(FILES)}; {_remedy(folder)}"
        )
    files = {}
    for name, expected in config.files.items():
        files[name] = _read(folder / name, min(expected.bytes, _MAX_FILE_BYTES))
        if entry(files[name]) != expected:
            raise BundleError(
                f"{folder / name} is not what config.json says (SHA-256); {_remedy(folder)}"
            )
    return config, files


def _read_config(path: Path) -> BundleConfig:
    content = _read(path, _MAX_CONFIG_BYTES)
    try:
        header = from_json(content)
    except ValueError as error:
        raise BundleError(f"{path} is no JSON ({error}); {_remedy(path.parent)}") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise BundleError(f"{path} is not the configuration of a bundle (format {FORMAT!r})")
    if header.get("format_version") != FORMAT_VERSION:
        raise BundleError(
            f"{path} has format_version {header.get('format_version')!r}; this library reads "
            f"{FORMAT_VERSION!r}: use the version of dwise-predict that wrote the bundle"
        )
    try:
        config = BundleConfig.model_validate_json(content)
    except ValidationError as error:
        finding = error.errors()[0]
        key = ".".join(str(part) for part in finding["loc"])
        raise BundleError(
            f"{path}: key {key!r}: {finding['msg']}; {_remedy(path.parent)}"
        ) from error
    if config.digest != config.content_digest():
        raise BundleError(
            f"{path} was changed after it was written (digest); {_remedy(path.parent)}"
        )
    return config


def _read(path: Path, limit: int) -> bytes:
    try:
        if not path.is_file():
            raise BundleError(f"{path} is missing; {_remedy(path.parent)}")
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise BundleError(
            f"cannot read {path}: {error.strerror}; {_remedy(path.parent)}"
        ) from error
    if len(content) > limit:
        raise BundleError(
            f"{path} is larger than the {limit} bytes it may have; {_remedy(path.parent)}"
        )
    return content


def _remedy(folder: Path) -> str:
    return (
        f"download the bundle again or, in a run, delete the folder {folder} and run again "
        "with --resume"
    )
