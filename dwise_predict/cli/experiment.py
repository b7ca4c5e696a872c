"""``dwise experiment``: the paper's tables and figures, measured on a model of one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dwise_predict.cli.options import HELP_FLAGS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dwise_predict.experiments.experiment import Experiment
    from dwise_predict.experiments.values import Value

_EXAMPLES = """\b
Examples:
  dwise experiment --list
  dwise experiment all --engine torch --model tiny
  dwise experiment ranking --engine simulator --model tiny --seeds 10
"""


@click.command(
    context_settings=HELP_FLAGS,
    short_help="Measure the paper's tables and figures.",
    epilog=_EXAMPLES,
)
@click.argument("names", nargs=-1, metavar="[NAME...|all]")
@click.option("--list", "listing", is_flag=True, help="Name the experiments, one a line; stop.")
@click.option(
    "--engine",
    type=click.Choice(["simulator", "torch", "sglang"]),
    default="torch",
    show_default=True,
    help="Who serves: a replay of profiled rounds, the built-in engine, or SGLang's server.",
)
@click.option(
    "--model",
    default="tiny",
    show_default=True,
    metavar="NAME|RECIPE.yaml",
    help="Built-in recipe, or a file.",
)
@click.option(
    "--seeds",
    type=click.IntRange(min=1, max=1000),
    default=3,
    show_default=True,
    help="Workloads, each with a profile and predictors of its own.",
)
@click.option("--out", metavar="DIR", help="[default: runs/experiments/<recipe name>]")
@click.option(
    "--processes",
    type=click.IntRange(min=1, max=1024),
    help="Pieces of work at the same time.  [default: the number of cores]",
)
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a recipe key, e.g. workload.eval=128. Repeatable.",
)
@click.option("--docs", metavar="DIR", help="Also write a page for each experiment there.")
def experiment(
    names: tuple[str, ...],
    listing: bool,
    engine: str,
    model: str,
    seeds: int,
    out: str | None,
    processes: int | None,
    overrides: tuple[str, ...],
    docs: str | None,
) -> None:
    """Run experiments of the paper and print what was measured beside the paper's figures.

    Profiles and predictors are made once for each seed and shared. What is finished is kept in
    DIR: run the same command again after an interruption, or more experiments there.
    """
    if listing:
        _list()
        return
    if not names:
        raise click.UsageError("name an experiment, or all (dwise experiment --list names them)")
    import os
    from pathlib import Path
    from typing import cast

    from dwise_predict.cli.display import progress_on
    from dwise_predict.cli.options import require_experiments_extra, require_train_extra
    from dwise_predict.errors import ExperimentError
    from dwise_predict.experiments.run import chosen, run_experiments
    from dwise_predict.experiments.settings import EngineName, Settings
    from dwise_predict.recipe import load_recipe

    if any(override.startswith("seed=") for override in overrides):
        raise ExperimentError(
            "--set seed: experiments serve the seeds from 0 on; say how many with --seeds"
        )
    # SGLang's environment has its own packages, and what it can run compares with no others.
    require_train_extra() if engine == "sglang" else require_experiments_extra()
    recipe = load_recipe(model, overrides)
    settings = Settings(
        engine=cast(EngineName, engine),
        recipe=recipe,
        seeds=seeds,
        out=Path(out or f"runs/experiments/{recipe.name}"),
        workers=processes or os.cpu_count() or 1,
    )
    experiments, impossible = chosen(names, settings)
    progress = progress_on()
    for left_out in impossible:
        reason = left_out.not_with[settings.engine]
        progress.note(f"{left_out.name}: not with --engine {engine}: {reason}")
    flags = ["--engine", engine, "--model", model, "--seeds", str(seeds)]
    for override in overrides:
        flags += ["--set", override]
    run_experiments(
        experiments, settings, flags, progress, _show, None if docs is None else Path(docs)
    )


def _list() -> None:
    from dwise_predict.experiments.registry import EXPERIMENTS

    width = max(map(len, EXPERIMENTS))
    source = max(len(experiment.source) for experiment in EXPERIMENTS.values())
    for experiment in EXPERIMENTS.values():
        engines = "".join(f"  (not with {name})" for name in experiment.not_with)
        click.echo(
            f"{experiment.name:<{width}}  {experiment.source:<{source}}  "
            f"{experiment.title}{engines}"
        )


def _show(experiment: Experiment, values: Sequence[Value], folder: Path) -> None:
    from rich.table import Table

    from dwise_predict.cli.terminal import output_console
    from dwise_predict.experiments.output import experiment_grid

    grid = experiment_grid(experiment, values)
    table = Table(title=f"{experiment.title} ({experiment.source})", title_justify="left")
    for place, header in enumerate(grid.headers):
        table.add_column(header, justify="left" if place < grid.labels else "right")
    for row in grid.rows:
        table.add_row(*row)
    output_console().print(table)
    click.echo(str(folder))
