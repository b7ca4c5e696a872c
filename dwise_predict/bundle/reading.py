"""JSON files of a bundle: parsed within limits, checked against their schema by version.

A file of a later minor version may hold keys that this library does not know: they are left out.
In a file of this version or an earlier one, an unknown key means damage.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from dwise_predict.bundle.schema import FORMAT, MAJOR, MINOR
from dwise_predict.errors import BundleError, BundleVersionError
from dwise_predict.validation import shortened

Model = TypeVar("Model", bound=BaseModel)


def parse_json(content: bytes, source: str) -> Any:
    """Decode JSON; nesting is limited, and NaN and infinities are no numbers.

    Raises:
        BundleError: it is no such JSON; ``source`` names the file.
    """
    try:
        return from_json(content, allow_inf_nan=False)
    except ValueError as error:
        raise BundleError(f"{source} is no JSON ({error})") from error


def check_version(header: Any, source: str) -> int:
    """Return the minor version of a configuration that this library can read.

    Raises:
        BundleError: it is no bundle's.
        BundleVersionError: it is of another major version; says what to do.
    """
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise BundleError(f"{source} is not the configuration of a bundle (format {FORMAT!r})")
    version = header.get("format_version")
    major, _, minor = version.partition(".") if isinstance(version, str) else ("", "", "")
    if not (_is_number(major) and _is_number(minor)):
        raise BundleError(
            f"{source}: format_version is {shortened(version)}, expected a string like "
            f"'{MAJOR}.{MINOR}'"
        )
    if int(major) > MAJOR:
        raise BundleVersionError(
            f"{source} has format_version {version!r}; this library reads {MAJOR}.x: upgrade it "
            "with: pip install --upgrade dwise-predict"
        )
    if int(major) < MAJOR:
        raise BundleVersionError(
            f"{source} has format_version {version!r}; this library reads {MAJOR}.x: use the "
            "version of dwise-predict that wrote the bundle, or train it again"
        )
    return int(minor)


def parse_record(kind: type[Model], content: Any, minor: int, source: str) -> Model:
    """Check decoded JSON against ``kind``, forgiving unknown keys of later minor versions.

    Raises:
        BundleError: naming the key and what is wrong with it; ``source`` names the file.
    """
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        findings = error.errors()
        if minor > MINOR and all(finding["type"] == "extra_forbidden" for finding in findings):
            for finding in findings:
                _drop(content, finding["loc"])
            return parse_record(kind, content, MINOR, source)
        key = ".".join(str(part) for part in findings[0]["loc"])
        raise BundleError(f"{source}: key {key!r}: {findings[0]['msg']}") from error


def _drop(content: Any, location: tuple[int | str, ...]) -> None:
    for part in location[:-1]:
        content = content[part]
    del content[location[-1]]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 4
