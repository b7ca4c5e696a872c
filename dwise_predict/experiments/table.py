"""Tables of measured figures beside the paper's: pure functions from values to text."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dwise_predict.experiments.experiment import Column
from dwise_predict.experiments.values import Key, Summary, Value, summarised

NOTHING = "–"


class Grid(NamedTuple):
    """Text of a table; the first ``labels`` columns say what a row is about."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    labels: int


def grid(values: Sequence[Value], columns: Sequence[Column], paper: Mapping[Key, float]) -> Grid:
    """One row for each arrival and run, in order of appearance, ours before the paper's figure.

    Runs without any of the figures are left out, and so are columns of the paper that it has no
    figure for in any row.
    """
    summaries = summarised(values)
    shown = {column.figure for column in columns}
    places = dict.fromkeys(key[:2] for key in summaries if key.figure in shown)
    pairs = [
        (column, column.paper and any(Key(*place, column.figure) in paper for place in places))
        for column in columns
    ]
    arrivals = any(arrival for arrival, _ in places)
    headers = ["arrivals"] if arrivals else []
    headers.append("")
    for column, beside in pairs:
        headers += [column.title, "paper"] if beside else [column.title]
    rows = []
    for arrival, run in places:
        row = [arrival, run] if arrivals else [run]
        for column, beside in pairs:
            key = Key(arrival, run, column.figure)
            row.append(_ours(summaries.get(key), column))
            if beside:
                row.append(number(paper.get(key), column.digits))
        rows.append(tuple(row))
    return Grid(tuple(headers), tuple(rows), 2 if arrivals else 1)


def number(value: float | None, digits: str) -> str:
    """A figure as people read it."""
    return NOTHING if value is None else format(value, digits)


def _ours(summary: Summary | None, column: Column) -> str:
    if summary is None:
        return NOTHING
    mean = number(summary.mean, column.digits)
    alone = summary.seeds == 1 or not column.spread
    return mean if alone else f"{mean} ± {number(summary.spread, '.2g')}"


def markdown(table: Grid) -> str:
    """The table as Markdown."""
    rule = ["---"] * table.labels + ["---:"] * (len(table.headers) - table.labels)
    lines = [table.headers, rule, *table.rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def comma_separated(values: Sequence[Value], paper: Mapping[Key, float]) -> str:
    """Every figure over seeds, shown in the table or not, one a line."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["arrival", "run", "figure", "ours", "spread", "seeds", "paper"])
    for key, summary in summarised(values).items():
        writer.writerow([*key, *summary, paper.get(key, "")])
    return buffer.getvalue()
