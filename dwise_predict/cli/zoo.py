"""``dwise zoo``: models with a published bundle or a recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dwise_predict.cli.options import HELP_FLAGS

if TYPE_CHECKING:
    from dwise_predict.zoo import ZooEntry

UNDEFINED = "–"
_TEXT = ("name", "status", "bundle", "recipe")
_FIGURES = ("median", "admission", "refined")
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
    from rich.table import Table

    from dwise_predict.cli.terminal import output_console
    from dwise_predict.recipe import recipe_names
    from dwise_predict.zoo import read_index

    console, recipes = output_console(), recipe_names()
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for name in _TEXT:
        table.add_column(name, no_wrap=True)
    for name in _FIGURES:
        table.add_column(name, justify="right")
    notes: dict[str, list[str]] = {}
    for entry in read_index():
        recipe = "yes" if entry.name in recipes else "not yet"
        table.add_row(entry.name, entry.status, _bundle(entry), recipe, *_figures(entry))
        notes.setdefault(entry.note, []).append(f"{entry.name}: {entry.model}")
    console.print(table)
    click.echo("median: rounds of a request; admission, refined: Spearman correlation of predicted")
    click.echo("with true rounds on unseen prompts")
    for note, names in notes.items():
        click.echo(f"\n{note}")
        for name in names:
            click.echo(f"  {name}")


def _bundle(entry: ZooEntry) -> str:
    if entry.shipped:
        return "shipped"
    return "none" if entry.bundle is None else f"{entry.bundle}@{str(entry.revision)[:8]}"


def _figures(entry: ZooEntry) -> list[str]:
    metrics = entry.metrics
    if metrics is None:
        return [UNDEFINED] * len(_FIGURES)
    return [
        f"{metrics.rounds_p50:g}",
        f"{metrics.admission_spearman:.3f}",
        f"{metrics.refined_spearman:.3f}",
    ]
