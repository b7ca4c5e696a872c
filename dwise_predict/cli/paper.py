"""``dwise paper``: the paper's evaluation, replayed and compared figure by figure."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from dwise_predict.cli.options import HELP_FLAGS

if TYPE_CHECKING:
    from pathlib import Path

_EXAMPLES = """\b
Examples:
  dwise paper --output runs/paper
  dwise paper --output runs/paper --table "Table 3" --table "Figure 8"
  dwise paper --output runs/paper --beyond 10
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
@click.option(
    "--beyond",
    type=click.IntRange(min=1),
    metavar="SEEDS",
    help="Instead of the paper's tables: what each option beyond the paper gains, over so many "
    "draws of workload, arrivals and prediction errors.",
)
def paper(
    output: str,
    tables: tuple[str, ...],
    models: tuple[str, ...],
    processes: int | None,
    beyond: int | None,
) -> None:
    """Replay the paper's evaluation on a reference workload and print paper, ours and ratio.

    Writes validation.json and validation.md into DIR; of chosen tables or models, partial.json
    and partial.md; with --beyond, beyond.json and beyond.md. Everything is derived from the
    paper's text: no model runs.
    """
    from pathlib import Path

    from dwise_predict.errors import SimulationError

    folder = Path(output)
    if folder.exists() and not folder.is_dir():
        raise SimulationError(f"--output {output} is a file, expected a folder")
    workers = processes or os.cpu_count() or 1
    if beyond is None:
        _compare(folder, tables, models, workers)
        return
    if tables or models:
        raise SimulationError("--table and --model choose among the paper's figures: not --beyond")
    _compare_levers(folder, beyond, workers)


def _compare(
    folder: Path, tables: tuple[str, ...], models: tuple[str, ...], processes: int
) -> None:
    from dwise_predict.cli.paper_output import print_comparison
    from dwise_predict.errors import SimulationError
    from dwise_predict.files import make_folder
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
    make_folder(folder)
    with _counted("replays") as on_done:
        rows = compare(chosen, processes, on_done)
    paths = write_validation(rows, folder, complete=len(chosen) == len(published))
    print_comparison(rows)
    _say(paths)


def _compare_levers(folder: Path, seeds: int, processes: int) -> None:
    from dwise_predict.cli.paper_output import print_gains
    from dwise_predict.files import make_folder
    from dwise_predict.simulation.paper.beyond import compare_levers, write_gains

    make_folder(folder)
    with _counted("seeds") as on_done:
        gains = compare_levers(range(seeds), processes, on_done)
    paths = write_gains(gains, seeds, folder)
    print_gains(gains)
    _say(paths)


@contextmanager
def _counted(what: str) -> Iterator[Callable[[int, int], None]]:
    """Progress that is told how many are done, and of how many."""
    from dwise_predict.cli.display import progress_on

    with progress_on().task(what, 1.0) as advance:
        shown = 0.0

        def on_done(done: int, total: int) -> None:
            nonlocal shown
            advance(done / total - shown)
            shown = done / total

        yield on_done


def _say(paths: list[Path]) -> None:
    for path in paths:
        click.echo(str(path))
