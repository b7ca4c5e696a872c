"""``dwise profile``: serve a workload first come, first served and label its denoising rounds."""

from __future__ import annotations

import shlex
from typing import Any

import click
from click.core import ParameterSource

from dwise_predict.cli.fleet import fleet_options, take_fleet
from dwise_predict.cli.launch_files import launch_files
from dwise_predict.cli.merge import merge
from dwise_predict.cli.options import HELP_FLAGS, require_train_extra, resolve, run_options
from dwise_predict.cli.preflight import require_ready
from dwise_predict.cli.profile_serve import profile_serve

_EXAMPLES = """\b
Examples:
  dwise profile --model tiny
  dwise profile --model llada2.1-mini --server http://node1:30000 --server http://node2:30000
  dwise profile merge recording-1 recording-2 --workload runs/llada2.1-mini --out profile
Continue with: dwise train … --resume
"""


@click.group(
    invoke_without_command=True,
    context_settings=HELP_FLAGS,
    short_help="Serve a workload and label its rounds.",
    epilog=_EXAMPLES,
)
@run_options(model_required=False)
@fleet_options
@click.pass_context
def profile(
    ctx: click.Context,
    /,
    resume: bool,
    plan: bool,
    **flags: Any,
) -> None:
    """Serve a workload and label its rounds: the first stages of train alone."""
    if ctx.invoked_subcommand is not None:
        given = [
            parameter.opts[0]
            for parameter in ctx.command.params
            if parameter.name is not None
            and ctx.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
        ]
        if given:
            raise click.UsageError(
                f"{', '.join(given)} would do nothing for {ctx.invoked_subcommand}: give its own "
                "flags after it",
                ctx,
            )
        return
    if flags["model"] is None:
        raise click.UsageError("Missing option '--model'.", ctx)
    fleet, fleet_flags = take_fleet(flags)
    run = resolve(**flags)
    if plan:
        from dwise_predict.cli.plan import describe_run

        click.echo(describe_run(run.recipe, run.out, only_profile=True))
        return
    command = shlex.join(["dwise", "profile", *run.flags, *fleet_flags])
    require_ready(run, command, fleet, fleet_flags)
    require_train_extra()
    from dwise_predict.cli.display import progress_on
    from dwise_predict.cli.summary import print_stability
    from dwise_predict.pipeline import run_profiling

    try:
        folder = run_profiling(run.recipe, run.out, resume, progress_on(), fleet)
    except KeyboardInterrupt:
        click.echo(f"\ninterrupted; continue with: {command} --resume", err=True)
        ctx.exit(130)
    print_stability(folder)
    click.echo(f"profile: {folder.profile}")


for command in (merge, profile_serve, launch_files):
    profile.add_command(command)
