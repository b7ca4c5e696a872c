"""``dwise doctor``: whether this machine has what a campaign needs."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import click

from dwise_predict.cli.fleet import fleet_options, take_fleet
from dwise_predict.cli.options import HELP_FLAGS, campaign_options, resolve

_EXAMPLES = """\b
Examples:
  dwise doctor --model llada2.1-mini
  dwise doctor --model llada2.1-mini --set engine.sglang.tp_size=2 --json
  dwise doctor --model llada2.1-mini --server http://node1:30000
  dwise doctor --model sdar-8b --workload workloads/paper/workload.jsonl
"""


@click.command(
    context_settings=HELP_FLAGS,
    short_help="Check this machine for what a model needs.",
    epilog=_EXAMPLES,
)
@campaign_options(model_required=True)
@fleet_options
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list instead of lines.")
@click.pass_context
def doctor(
    ctx: click.Context,
    /,
    as_json: bool,
    **flags: Any,
) -> None:
    """Check Python, torch, GPUs, SGLang and its hooks, the Hub, data sets, disk and port.

    Each line is OK, WARN or MISSING, with what to do. Ends with status 1 when something is missing.
    """
    fleet, _ = take_fleet(flags)
    run = resolve(**flags)
    from dwise_predict.cli.preflight import lines
    from dwise_predict.doctor import examine

    findings = examine(run.recipe, run.out, fleet)
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=1))
    else:
        for line in lines(findings):
            click.echo(line)
    if any(finding.status == "missing" for finding in findings):
        ctx.exit(1)
