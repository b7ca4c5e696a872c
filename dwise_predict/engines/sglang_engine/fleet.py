"""Running servers that a campaign may use instead of an engine of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Fleet:
    """Servers, and where their recordings can be read.

    Attributes:
        servers: addresses such as ``http://node1:30000``; empty: SGLang is started here.
        recordings: recording folders that can be read here; empty: the folders that the servers
            name, where they can be read.
        in_flight: requests that a server holds at a time; None: twice its slots.
    """

    servers: tuple[str, ...] = ()
    recordings: tuple[Path, ...] = ()
    in_flight: int | None = None


HERE = Fleet()
"""No servers: an engine is started on this machine."""
