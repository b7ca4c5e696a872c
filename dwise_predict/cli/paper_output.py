"""How ``dwise paper`` shows its comparison."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from dwise_predict.simulation.paper.comparison import Row, closeness
from dwise_predict.simulation.paper.validation import describe, judge

_STYLES = {"near": "", "middling": "yellow", "far": "red"}


def print_comparison(rows: Sequence[Row]) -> None:
    """One table for each of the paper's, and the verdict."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=120)
    for name in dict.fromkeys(row.published.table for row in rows):
        table = Table(title=name, title_justify="left")
        table.add_column("figure")
        for column in ("paper", "ours", "ratio"):
            table.add_column(column, justify="right")
        table.add_column("")
        for row in rows:
            if row.published.table == name:
                style = "" if row.published.fitted else _STYLES[closeness(row)]
                table.add_row(
                    describe(row),
                    f"{row.published.value:g}",
                    f"{row.ours:.4g}",
                    f"{row.ratio:.2f}",
                    "fitted" if row.published.fitted else "",
                    style=style,
                )
        console.print(table)
    verdict = judge(rows)
    if verdict.validation:
        console.print(
            f"{verdict.validation} figures nothing was fitted to: {verdict.near_share:.0%} within "
            f"20% of the paper, {verdict.far} off by more than 40%."
        )
    if verdict.ordered_pairs:
        console.print(
            f"{verdict.ordered_pairs} pairs of runs are ordered by mean latency in the paper, "
            f"{verdict.misordered_pairs} of them the other way round here."
        )
