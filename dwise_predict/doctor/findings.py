"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warn", "missing"]


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's list.

    ``remedy`` is what to do, empty when nothing has to be done. ``missing`` stops a run, ``warn``
    does not.
    """

    check: str
    status: Status
    message: str
    remedy: str = ""


def ok(check: str, message: str) -> Finding:
    """All is well."""
    return Finding(check, "ok", message)


def warn(check: str, message: str, remedy: str = "") -> Finding:
    """A run is possible, but look at this."""
    return Finding(check, "warn", message, remedy)


def missing(check: str, message: str, remedy: str) -> Finding:
    """A run cannot succeed."""
    return Finding(check, "missing", message, remedy)
