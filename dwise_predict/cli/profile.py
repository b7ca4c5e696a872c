"""``dwise profile``: serve a workload first come, first served and label its denoising rounds."""

from __future__ import annotations

import shlex
from typing import Any

import click

from dwise_predict.cli.options import HELP_FLAGS, require_train_extra, resolve, run_options
from dwise_predict.cli.preflight import require_ready


@click.command(
    context_settings=HELP_FLAGS,
    short_help="Serve a workload and label its rounds.",
    epilog="Continue with: dwise train … --resume",
)
@run_options(model_required=True)
@click.pass_context
def profile(ctx: click.Context, /, resume: bool, plan: bool, **flags: Any) -> None:
    """Serve a workload and label its rounds: the first stages of train alone."""
    run = resolve(**flags)
    if plan:
        from dwise_predict.cli.plan import describe_run

        click.echo(describe_run(run.recipe, run.out, only_profile=True))
        return
    require_ready(run, shlex.join(["dwise", "profile", *run.flags]))
    require_train_extra()
    from dwise_predict.cli.display import progress_on
    from dwise_predict.cli.summary import print_stability
    from dwise_predict.pipeline import run_profiling

    try:
        folder = run_profiling(run.recipe, run.out, resume, progress_on())
    except KeyboardInterrupt:
        command = shlex.join(["dwise", "profile", *run.flags])
        click.echo(f"\ninterrupted; continue with: {command} --resume", err=True)
        ctx.exit(130)
    print_stability(folder)
    click.echo(f"profile: {folder.profile}")
