"""``dwise paper``: the paper's evaluation, replayed and compared figure by figure."""

from __future__ import annotations

import os

import click

from dwise_predict.cli.options import HELP_FLAGS

_EXAMPLES = """\b
Examples:
  dwise paper --output runs/paper
  dwise paper --output runs/paper --table "Table 3" --table "Figure 8"
"""


@click.command(
    context_settings=HELP_FLAGS,
    short_help="Replay the paper's evaluation and compare.",
    epilog=_EXAMPLES,
)
@click.option("--output", required=True, metavar="DIR", help="Where the comparison is written.")
@click.option(
    "--table",
    "tables",
    multiple=True,
    metavar="NAME",
    help='Only this table or figure of the paper, e.g. "Table 3". Repeatable.',
)
@click.option("--model", "models", multiple=True, metavar="NAME", help="Only this model.")
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    help="Replays at the same time.  [default: the number of cores]",
)
def paper(
    output: str, tables: tuple[str, ...], models: tuple[str, ...], processes: int | None
) -> None:
    """Replay the paper's evaluation on a reference workload and print paper, ours and ratio.

    Writes DIR/validation.json and DIR/validation.md. Everything is derived from the paper's text:
    no model runs.
    """
    from pathlib import Path

    from dwise_predict.cli.display import progress_on
    from dwise_predict.cli.paper_output import print_comparison
    from dwise_predict.errors import SimulationError
    from dwise_predict.simulation.paper.comparison import compare, published_figures
    from dwise_predict.simulation.paper.validation import write_validation
    from dwise_predict.validation import unknown_name

    published = published_figures()
    for what, given, known in (
        ("table", tables, list(dict.fromkeys(f.table for f in published))),
        ("model", models, list(dict.fromkeys(f.model for f in published))),
    ):
        for name in given:
            if name not in known:
                raise SimulationError(unknown_name(what, name, known))
    chosen = [
        figure
        for figure in published
        if (not tables or figure.table in tables) and (not models or figure.model in models)
    ]
    if not chosen:
        raise SimulationError("the paper has no figure of these models in these tables")
    folder = Path(output)
    if folder.exists() and not folder.is_dir():
        raise SimulationError(f"--output {output} is a file, expected a folder")
    progress = progress_on()
    done_before = 0
    with progress.task("replays", 1.0) as advance:

        def on_done(done: int, total: int) -> None:
            nonlocal done_before
            advance((done - done_before) / total)
            done_before = done

        rows = compare(chosen, processes or os.cpu_count() or 1, on_done)
    paths = write_validation(rows, folder)
    print_comparison(rows)
    for path in paths:
        click.echo(f"{path}")
