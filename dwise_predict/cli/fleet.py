"""Flags of the verbs that can use running servers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import click

if TYPE_CHECKING:
    from dwise_predict.engines.sglang_engine.fleet import Fleet

_Verb = TypeVar("_Verb", bound=Callable[..., Any])


def fleet_options(verb: _Verb) -> _Verb:
    """Add --server, --recording and --in-flight."""
    for option in reversed(
        [
            click.option(
                "--server",
                "servers",
                multiple=True,
                metavar="URL",
                callback=_addresses,
                help="Profile with this running SGLang server (dwise profile serve). Repeatable.",
            ),
            click.option(
                "--recording",
                "recordings",
                multiple=True,
                metavar="DIR",
                help="Where a server's recording can be read here, if not where the server says. "
                "Repeatable.",
            ),
            click.option(
                "--in-flight",
                type=click.IntRange(1, 1_000_000),
                metavar="N",
                help="Requests that a server holds at a time.  [default: twice its slots]",
            ),
        ]
    ):
        verb = option(verb)
    return verb


def take_fleet(given: dict[str, Any]) -> tuple[Fleet, list[str]]:
    """Take the flags of :func:`fleet_options` out of ``given``; also as they are written again."""
    from dwise_predict.engines.sglang_engine.fleet import Fleet

    servers, recordings = given.pop("servers"), given.pop("recordings")
    in_flight = given.pop("in_flight")
    flags = []
    for name, values in (("--server", servers), ("--recording", recordings)):
        for value in values:
            flags += [name, value]
    if in_flight is not None:
        flags += ["--in-flight", str(in_flight)]
    return Fleet(servers, tuple(map(Path, recordings)), in_flight), flags


def _addresses(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    for value in values:
        if not _is_address(value):
            raise click.BadParameter(
                f"{value!r} is no address of a server: expected http://HOST:PORT"
            )
    return tuple(dict.fromkeys(value.rstrip("/") for value in values))


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        port = parts.port  # refuses what is no port
    except ValueError:
        return False
    more = parts.path.strip("/") or parts.query or parts.fragment
    plain = text.isprintable() and " " not in text
    return (
        parts.scheme in ("http", "https")
        and bool(parts.hostname)
        and port != 0
        and not more
        and plain
    )
