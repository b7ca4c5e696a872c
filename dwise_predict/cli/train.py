"""``dwise train``: profile a model, train its predictors, write bundle and report."""

from __future__ import annotations

import shlex
from typing import Any

import click

from dwise_predict.cli.fleet import fleet_options, take_fleet
from dwise_predict.cli.options import HELP_FLAGS, require_train_extra, resolve, run_options
from dwise_predict.cli.preflight import require_ready

_EXAMPLES = """\b
Examples:
  dwise train --model tiny
  dwise train --model tiny --resume
  dwise train --model tiny --workload prompts.jsonl --out runs/mine
  dwise train --model tiny --set engine.slots=16 --plan
  dwise train --model tiny --set predictors.admission.features=extended
  dwise train --model llada2.1-mini --server http://node1:30000 --server http://node2:30000
  dwise train --profile runs/tiny/profile --out runs/again
  dwise train --profile live-profile --init-from runs/tiny/bundle --out runs/refreshed
  dwise train --profile live-profile --init-from tiny --calibration-only --out runs/calibrated
  dwise train --profile hub:ORG/dwise-tiny-profile --set predictors.refiner.members=5
"""


@click.command(
    context_settings=HELP_FLAGS,
    short_help="Profile a model, train its predictors, report.",
    epilog=_EXAMPLES,
)
@run_options(model_required=False)
@fleet_options
@click.option(
    "--profile",
    metavar="DIR|hub:ORG/NAME",
    help="Train from this profile instead of serving; only --out, --seed, --set predictors.* "
    "and, for its predictors section, --model apply.",
)
@click.option(
    "--init-from",
    metavar="BUNDLE",
    help="Refresh this bundle (folder, zoo name, Hub repository) with --profile.",
)
@click.option(
    "--calibration-only",
    is_flag=True,
    help="With --init-from: refit the calibration alone, which takes seconds.",
)
@click.option(
    "--trained-on",
    multiple=True,
    metavar="DIR|hub:ORG/NAME",
    help="With --init-from: a profile that the bundle was trained on, whose prompts say nothing of "
    "new ones. The one beside the bundle is found without. Repeatable.",
)
@click.pass_context
def train(
    ctx: click.Context,
    /,
    resume: bool,
    plan: bool,
    profile: str | None,
    init_from: str | None,
    calibration_only: bool,
    trained_on: tuple[str, ...],
    **flags: Any,
) -> None:
    """Profile a model, train both predictors, write a bundle and a report."""
    if init_from is None and (calibration_only or trained_on):
        flag = "--calibration-only" if calibration_only else "--trained-on"
        raise click.UsageError(f"{flag} needs --init-from", ctx)
    if profile is not None:
        serving = ("workload", "repeats", "compare_batching", "servers", "recordings", "in_flight")
        for flag, given in {
            "resume": resume,
            "plan": plan,
            **{flag: flags[flag] for flag in serving},
        }.items():
            if given:
                name = {"servers": "server", "recordings": "recording"}.get(flag, flag)
                name = name.replace("_", "-")
                raise click.UsageError(f"--{name} does not go with --profile", ctx)
        if init_from is not None and flags["model"] is not None:
            raise click.UsageError(
                "--model does not go with --init-from: settings are the bundle's", ctx
            )
        from dwise_predict.cli.retrain import retrain

        retrain(
            profile,
            flags["model"],
            flags["out"],
            flags["seed"],
            flags["overrides"],
            init_from,
            calibration_only,
            trained_on,
        )
        return
    if init_from is not None:
        raise click.UsageError(
            "--init-from needs --profile: serve new requests with dwise profile first", ctx
        )
    if flags["model"] is None:
        raise click.UsageError("Missing option '--model' (or '--profile').", ctx)
    fleet, fleet_flags = take_fleet(flags)
    run = resolve(**flags)
    if plan:
        from dwise_predict.cli.plan import describe_run

        click.echo(describe_run(run.recipe, run.out))
        return
    # Bundles keep this command, and nobody's network.
    command = shlex.join(["dwise", "train", *run.flags])
    resuming = shlex.join(["dwise", "train", *run.flags, *fleet_flags])
    require_ready(run, resuming, fleet, fleet_flags)
    require_train_extra()
    from dwise_predict.cli.display import progress_on
    from dwise_predict.cli.summary import print_summary
    from dwise_predict.pipeline import run_training

    try:
        result = run_training(run.recipe, run.out, resume, progress_on(), command, fleet)
    except KeyboardInterrupt:
        click.echo(f"\ninterrupted; continue with: {resuming} --resume", err=True)
        ctx.exit(130)
    print_summary(result)
