"""How ``dwise paper`` shows its comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table

from dwise_predict.cli.terminal import output_console
from dwise_predict.simulation.arrivals import Pattern
from dwise_predict.simulation.beyond import Gain
from dwise_predict.simulation.paper.comparison import CLEAR, Row, closeness
from dwise_predict.simulation.paper.validation import describe, judge, number

_STYLES = {"near": "", "middling": "yellow", "far": "red"}


def print_comparison(rows: Sequence[Row]) -> None:
    """One table for each of the paper's, and the verdict."""
    console = output_console()
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
                    number(row.published.value),
                    number(row.ours),
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
            f"{verdict.ordered_pairs} pairs of runs are more than {CLEAR:.0%} apart in the paper's "
            f"mean latencies, {verdict.misordered_pairs} of them are the other way round here."
        )


def print_gains(found: Mapping[Pattern, Sequence[Gain]]) -> None:
    """One table an arrival pattern."""
    console = output_console()
    for arrival, listed in found.items():
        table = Table(title=arrival, title_justify="left")
        table.add_column("options")
        for column in ("mean (s)", "closed", "95% interval", "p99", "worst category's p99"):
            table.add_column(column, justify="right")
        for gain in listed:
            table.add_row(
                gain.name,
                f"{gain.mean_s:.1f}",
                f"{gain.closed:.0%}",
                f"{gain.closed_low:.0%} to {gain.closed_high:.0%}",
                f"{gain.p99_ratio:.2f}",
                f"{gain.worst_p99_ratio:.2f}",
            )
        console.print(table)
    console.print("closed: of the distance in mean latency from the paper's preset to the oracle")
