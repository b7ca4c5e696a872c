"""``dwise zoo``: models with a published bundle or a recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dwise_predict.cli.options import HELP_FLAGS

if TYPE_CHECKING:
    from dwise_predict.zoo import ZooEntry

_TEXT = ("name", "status", "bundle", "recipe")
_FIGURES = ("median rounds", "admission", "refined")
_EXAMPLES = """\b
Examples:
  dwise zoo
  dwise inspect tiny
"""


@click.command(
    context_settings=HELP_FLAGS, short_help="List models with a bundle or recipe.", epilog=_EXAMPLES
)
def zoo() -> None:
    """List models, their bundles and recipes, and how good the bundles are."""
    from rich.console import Console
    from rich.table import Table

    from dwise_predict.recipe import recipe_names
    from dwise_predict.zoo import read_index

    console, recipes = Console(highlight=False, markup=False), recipe_names()
    table = Table(box=None)
    for name in _TEXT:
        table.add_column(name, overflow="fold")
    for name in _FIGURES:
        table.add_column(name, justify="right")
    for entry in read_index():
        recipe = entry.name if entry.name in recipes else "in a later version"
        table.add_row(entry.name, entry.status, _bundle(entry), recipe, *_figures(entry))
    console.print(table)
    click.echo("admission, refined: Spearman correlation with true rounds on unseen prompts\n")
    for entry in read_index():
        click.echo(f"{entry.name}: {entry.model}. {entry.note}")


def _bundle(entry: ZooEntry) -> str:
    if entry.shipped:
        return "in the package"
    return "none" if entry.bundle is None else f"{entry.bundle}@{entry.revision}"


def _figures(entry: ZooEntry) -> list[str]:
    metrics = entry.metrics
    if metrics is None:
        return ["not measured"] * len(_FIGURES)
    return [
        f"{metrics.rounds_p50:g}",
        f"{metrics.admission_spearman:.3f}",
        f"{metrics.refined_spearman:.3f}",
    ]
