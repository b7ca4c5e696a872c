"""Bundle folders as bytes: written in one step, read with every file checked."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from dwise_predict.bundle.reading import check_version, parse_json, parse_record
from dwise_predict.bundle.schema import (
    ADMISSION_FILE,
    CONFIG_FILE,
    FILES,
    FILES_1_0,
    MINOR,
    REFINER_FILE,
    BundleConfig,
    FileEntry,
    config_bytes,
    content_digest,
)
from dwise_predict.errors import BundleError
from dwise_predict.files import replace_folder
from dwise_predict.run_folder import is_made_again
from dwise_predict.validation import shortened

_LARGEST = {ADMISSION_FILE: 16 * 2**20, REFINER_FILE: 2 * 2**30}
_LARGEST_OTHER = 4 * 2**20


def entry(content: bytes) -> FileEntry:
    """Size and hash of a file."""
    return FileEntry(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())


def largest(name: str) -> int:
    """Most bytes that a file of a bundle may have."""
    return _LARGEST.get(name, _LARGEST_OTHER)


def can_hold_bundle(folder: Path) -> bool:
    """Whether a bundle can be written there: the path is free, an empty folder or a bundle."""
    return not folder.exists() or (
        folder.is_dir() and ((folder / CONFIG_FILE).is_file() or not any(folder.iterdir()))
    )


def write_bundle_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a whole bundle folder, see :func:`~dwise_predict.files.replace_folder`.

    Raises:
        BundleError: the folder is something else than a bundle, or cannot be written.
    """
    for name, content in files.items():
        if len(content) > largest(name):
            raise BundleError(
                f"{name} would have {len(content)} bytes, a bundle's has at most "
                f"{largest(name)}; train smaller predictors"
            )
    try:
        if not can_hold_bundle(folder):
            raise BundleError(f"{folder} exists and is no bundle; choose another place")
        replace_folder(folder, files)
    except OSError as error:
        raise BundleError(
            f"cannot write the bundle {shortened(str(folder), 300)}: {error.strerror or error}; "
            "free space or choose another place"
        ) from error


def read_bundle_folder(
    folder: Path, remedy: str | None = None
) -> tuple[BundleConfig, int, dict[str, bytes]]:
    """Read config.json and all other files; each is read once and checked against its hash.

    Args:
        folder: of the bundle.
        remedy: what to do about a damaged one; None: what helps with a folder on this disk.

    Returns:
        The configuration, its minor version, and the content of every file that this version
        knows, config.json included.

    Raises:
        BundleError: it is no bundle, or a file is missing or damaged.
        BundleVersionError: it is of another format version.
    """
    if remedy is None:
        remedy = _remedy(folder)
    path = folder / CONFIG_FILE
    _require_config(folder, path)
    content = _read(path, largest(CONFIG_FILE), remedy)
    config, minor = _parse_config(content, path, remedy)
    files = {CONFIG_FILE: content}
    for name in FILES_1_0 if minor == 0 else FILES:
        expected = config.files[name]
        files[name] = _read(folder / name, min(expected.bytes, largest(name)), remedy)
        if entry(files[name]) != expected:
            raise BundleError(f"{folder / name} is not what config.json says (SHA-256); {remedy}")
    return config, minor, files


def _remedy(folder: Path) -> str:
    """What helps with a damaged bundle: only a run makes its own again."""
    if is_made_again(folder):
        return f"delete the folder {folder} and run again with --resume"
    return "get the bundle again from where it came, or train it again"


def _require_config(folder: Path, path: Path) -> None:
    """Refuse what is no bundle at all, without a word on what to do with the folder."""
    try:
        if path.is_file():
            return
    except OSError as error:
        raise BundleError(
            f"cannot read {shortened(str(path), 300)}: {error.strerror or error}"
        ) from error
    advice = f"; {_remedy(folder)}" if is_made_again(folder) else ""
    raise BundleError(f"{folder} is no bundle: it has no {CONFIG_FILE}{advice}")


def _parse_config(content: bytes, path: Path, remedy: str) -> tuple[BundleConfig, int]:
    try:
        header = parse_json(content, str(path))
    except BundleError as error:
        raise BundleError(f"{error}; {remedy}") from error
    # Of another version, or of something else: nothing is damaged that could be made again.
    minor = check_version(header, str(path))
    try:
        digest = content_digest(header)
        # Format 1.0 was written with another spacing, so only its content is checked.
        unchanged = minor == 0 or config_bytes(header) == content
        config = parse_record(BundleConfig, header, minor, str(path))
    except BundleError as error:
        raise BundleError(f"{error}; {remedy}") from error
    except (ValueError, RecursionError) as error:  # numbers or text that JSON cannot hold
        raise BundleError(f"{path} is no JSON ({error}); {remedy}") from error
    if config.digest != digest or not unchanged:
        raise BundleError(f"{path} was changed after it was written (digest); {remedy}")
    _check_files(config, minor, path, remedy)
    return config, minor


def _check_files(config: BundleConfig, minor: int, path: Path, remedy: str) -> None:
    """Exactly the files of the version; a later minor version may list more, which are left."""
    expected = set(FILES_1_0 if minor == 0 else FILES)
    listed = set(config.files)
    if listed != expected and not (minor > MINOR and expected < listed):
        raise BundleError(
            f"{path} lists the files {shortened(sorted(listed), 200)}, but a bundle has "
            f"{sorted(expected)}; {remedy}"
        )


def _read(path: Path, limit: int, remedy: str) -> bytes:
    try:
        if not path.is_file():
            raise BundleError(f"{path} is missing; {remedy}")
        size = path.stat().st_size
        if size > limit:
            raise BundleError(f"{path} is larger than the {limit} bytes it may have; {remedy}")
        with path.open("rb") as file:
            # Not the limit: Python allocates what it is asked to read.
            return file.read(size + 1)
    except OSError as error:
        raise BundleError(f"cannot read {path}: {error.strerror}; {remedy}") from error
    except ValueError as error:  # of paths with a NUL character
        raise BundleError(f"cannot read {str(path)!r}: {error}") from error
