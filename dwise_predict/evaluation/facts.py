"""Facts of a fingerprint as a person reads them."""

from __future__ import annotations

from collections.abc import Mapping

from dwise_predict.fingerprint import Fingerprint

UNDEFINED = "–"


def fingerprint_facts(fingerprint: Fingerprint) -> dict[str, str]:
    """Name and value of every field, in the order of the fingerprint."""
    return {name.replace("_", " "): _fact(value) for name, value in fingerprint}


def _fact(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {item:g}" for name, item in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return UNDEFINED if value is None else str(value)
