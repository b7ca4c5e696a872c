"""``dwise workload``: build a workload of public data sets once, to be served anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from dwise_predict.cli.options import HELP_FLAGS, SEED

_EXAMPLES = """\b
Examples:
  dwise workload build paper --out workloads/paper
  dwise workload build paper --model sdar-8b --out workloads/sdar --seed 1
  dwise workload build paper --out workloads/some --data gsm8k=/data/gsm8k --skip-missing
  dwise train --model llada2.1-mini --workload workloads/paper/workload.jsonl
"""


@click.group(context_settings=HELP_FLAGS, short_help="Build a workload of public data sets.")
def workload() -> None:
    """Prompts as a file, built once and served as often as you like."""


@workload.command(context_settings=HELP_FLAGS, epilog=_EXAMPLES)
@click.argument("name", type=click.Choice(["paper"]))
@click.option("--out", required=True, metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--model",
    default="llada2.1-mini",
    show_default=True,
    metavar="NAME|RECIPE.yaml",
    help="Whose tokenizer measures the long prompts.",
)
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a recipe key, e.g. model.repo=DIR. Repeatable.",
)
@click.option("--seed", type=SEED, help="[default: the recipe's]")
@click.option("--train", type=click.IntRange(0), help="Training requests.  [default: 2048]")
@click.option("--eval", "held_out", type=click.IntRange(0), help="Evaluation requests. [4096]")
@click.option("--skip-missing", is_flag=True, help="Go on without what cannot be had.")
@click.option(
    "--data",
    "folders",
    multiple=True,
    metavar="NAME=DIR",
    help="Folder with the files of a data set, instead of the Hub. Repeatable.",
)
@click.option(
    "--manifest",
    metavar="FILE.yaml",
    type=click.Path(path_type=Path),
    help="Own list of data sets instead of the package's.",
)
@click.pass_context
def build(
    ctx: click.Context,
    name: str,
    out: Path,
    model: str,
    overrides: tuple[str, ...],
    seed: int | None,
    train: int | None,
    held_out: int | None,
    skip_missing: bool,
    folders: tuple[str, ...],
    manifest: Path | None,
) -> None:
    """Write DIR/workload.jsonl and DIR/manifest.json with sources, licences and hashes.

    NAME is paper, the workload of the paper's Table 1: 4,096 evaluation and 2,048 training
    requests, no two of which are the same or nearly so.
    """
    from dwise_predict.cli.display import progress_on
    from dwise_predict.recipe import load_recipe
    from dwise_predict.workload.paper import build_paper_workload, load_manifest
    from dwise_predict.workload.paper.writing import refuse_filled, write_workload

    recipe = load_recipe(model, overrides)
    listed = load_manifest(manifest) if manifest is not None else load_manifest()
    refuse_filled(out)
    seed = recipe.seed if seed is None else seed
    made = build_paper_workload(
        listed,
        recipe.model,
        sum(part.train for part in listed.parts) if train is None else train,
        sum(part.eval for part in listed.parts) if held_out is None else held_out,
        seed,
        skip_missing,
        _folders(ctx, folders, [part.name for part in listed.sources]),
        progress=progress_on(),
    )
    write_workload(made, out, listed, recipe.model, seed)
    for drawn in made.drawn:
        click.echo(
            f"{drawn.part.name:<14} {drawn.train:5} training {drawn.eval:5} evaluation  "
            f"{drawn.part.licence}"
        )
    if made.skipped:
        click.echo(f"warning: {made.describe_skipped()}", err=True)
    click.echo(f"workload: {out / 'workload.jsonl'}")


def _folders(ctx: click.Context, given: Sequence[str], names: Sequence[str]) -> dict[str, Path]:
    from dwise_predict.validation import unknown_name

    folders: dict[str, Path] = {}
    for text in given:
        name, equals, folder = text.partition("=")
        if not equals or not folder:
            raise click.UsageError(f"--data {text!r}: expected NAME=DIR", ctx)
        if name not in names:
            raise click.UsageError(unknown_name("--data", name, names), ctx)
        folders[name] = Path(folder)
    return folders
