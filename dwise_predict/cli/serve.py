"""``dwise serve``: an SGLang server whose diffusion model schedules by remaining work."""

from __future__ import annotations

import math
import os
import sys
from importlib.util import find_spec

import click

from dwise_predict.cli.options import HELP_FLAGS
from dwise_predict.errors import EngineError


@click.command(
    context_settings=HELP_FLAGS,
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
@click.option(
    "--record", type=click.Path(file_okay=False), help="Folder to record what is served into."
)
@click.option(
    "--sample",
    type=click.FloatRange(0, 1, min_open=True),
    help="Share of the requests to record.  [default: 1]",
)
@click.option("--keep-prompts", is_flag=True, help="Record the tokens of prompts too.")
@click.option("--strict/--no-strict", default=True, help="Refuse to start instead of stock FCFS.")
@click.argument("server_arguments", nargs=-1, type=click.UNPROCESSED)
def serve(
    bundle: str,
    slots: int | None,
    resident_multiplier: int,
    record: str | None,
    sample: float | None,
    keep_prompts: bool,
    strict: bool,
    server_arguments: tuple[str, ...],
) -> None:
    """Start sglang.launch_server with the DWISE plugin and this bundle."""
    if sample is not None and math.isnan(sample):
        raise click.BadParameter("nan is no share", param_hint="--sample")
    if record is None and (sample is not None or keep_prompts):
        raise click.UsageError("--sample and --keep-prompts say what to --record: name a folder")
    if find_spec("sglang") is None:
        raise EngineError("SGLang is not installed here: pip install 'dwise-predict[sglang]'")
    asked = {
        "DWISE_MODE": "schedule",
        "DWISE_BUNDLE": bundle,
        "DWISE_SLOTS": slots,
        "DWISE_RESIDENT_MULTIPLIER": resident_multiplier,
        "DWISE_STRICT": int(strict),
        "DWISE_PROFILE": record,
        "DWISE_SAMPLE": sample,
        "DWISE_KEEP_PROMPTS": int(keep_prompts) or None,
    }
    variables = {name: str(value) for name, value in asked.items() if value is not None}
    for name in sorted(os.environ):
        if name.startswith("DWISE_") and name not in variables:
            click.echo(f"from this shell: {name}={os.environ[name]}", err=True)
    os.environ |= variables
    os.execv(sys.executable, [sys.executable, "-m", "sglang.launch_server", *server_arguments])
