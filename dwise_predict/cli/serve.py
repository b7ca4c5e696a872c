"""``dwise serve``: an SGLang server whose diffusion model schedules by remaining work."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

import click

from dwise_predict.cli.options import HELP_FLAGS
from dwise_predict.errors import EngineError


@click.command(
    context_settings={**HELP_FLAGS, "ignore_unknown_options": True},
    short_help="Serve a model in SGLang by remaining work.",
    epilog="Everything after -- goes to sglang.launch_server.",
)
@click.option("--bundle", required=True, help="Name in the zoo, Hub repository or folder.")
@click.option("--slots", type=click.IntRange(1, 65_536), help="Requests in a round.")
@click.option(
    "--resident-multiplier",
    type=click.IntRange(1, 65_536),
    default=8,
    show_default=True,
    help="Residents per slot.",
)
@click.option("--strict/--no-strict", default=True, help="Refuse to start instead of stock FCFS.")
@click.argument("server_arguments", nargs=-1, type=click.UNPROCESSED)
def serve(
    bundle: str,
    slots: int | None,
    resident_multiplier: int,
    strict: bool,
    server_arguments: tuple[str, ...],
) -> None:
    """Start sglang.launch_server with the DWISE plugin and this bundle."""
    if find_spec("sglang") is None:
        raise EngineError("SGLang is not installed here: pip install 'dwise-predict[sglang]'")
    os.environ |= {
        "DWISE_MODE": "schedule",
        "DWISE_BUNDLE": bundle,
        "DWISE_RESIDENT_MULTIPLIER": str(resident_multiplier),
        "DWISE_STRICT": str(int(strict)),
    }
    if slots is not None:
        os.environ["DWISE_SLOTS"] = str(slots)
    os.execv(sys.executable, [sys.executable, "-m", "sglang.launch_server", *server_arguments])
