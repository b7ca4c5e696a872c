"""``dwise train``: profile a model, train its predictors, write bundle and report."""

from __future__ import annotations

import shlex
from typing import Any

import click

from dwise_predict.cli.options import HELP_FLAGS, require_train_extra, resolve, run_options
from dwise_predict.cli.preflight import require_ready

_EXAMPLES = """\b
Examples:
  dwise train --model tiny
  dwise train --model tiny --resume
  dwise train --model tiny --workload prompts.jsonl --out runs/mine
  dwise train --model tiny --set engine.slots=16 --plan
  dwise train --model tiny --set predictors.admission.features=extended
  dwise train --profile runs/tiny/profile --out runs/again
  dwise train --profile hub:ORG/dwise-tiny-profile --set predictors.refiner.members=5
"""


@click.command(
    context_settings=HELP_FLAGS,
    short_help="Profile a model, train its predictors, report.",
    epilog=_EXAMPLES,
)
@run_options(model_required=False)
@click.option(
    "--profile",
    metavar="DIR|hub:ORG/NAME",
    help="Train from this profile instead of serving; only --out, --seed, --set predictors.* "
    "and, for its predictors section, --model apply.",
)
@click.pass_context
def train(
    ctx: click.Context, /, resume: bool, plan: bool, profile: str | None, **flags: Any
) -> None:
    """Profile a model, train both predictors, write a bundle and a report."""
    if profile is not None:
        serving = ("workload", "repeats", "compare_batching")
        for flag, given in {
            "resume": resume,
            "plan": plan,
            **{flag: flags[flag] for flag in serving},
        }.items():
            if given:
                name = flag.replace("_", "-")
                raise click.UsageError(f"--{name} does not go with --profile", ctx)
        from dwise_predict.cli.retrain import retrain

        retrain(profile, flags["model"], flags["out"], flags["seed"], flags["overrides"])
        return
    if flags["model"] is None:
        raise click.UsageError("Missing option '--model' (or '--profile').", ctx)
    run = resolve(**flags)
    if plan:
        from dwise_predict.cli.plan import describe_run

        click.echo(describe_run(run.recipe, run.out))
        return
    command = shlex.join(["dwise", "train", *run.flags])
    require_ready(run, command)
    require_train_extra()
    from dwise_predict.cli.display import progress_on
    from dwise_predict.cli.summary import print_summary
    from dwise_predict.pipeline import run_training

    try:
        result = run_training(run.recipe, run.out, resume, progress_on(), command)
    except KeyboardInterrupt:
        click.echo(f"\ninterrupted; continue with: {command} --resume", err=True)
        ctx.exit(130)
    print_summary(result)
