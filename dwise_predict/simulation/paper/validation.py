"""The comparison as files: JSON for programs, Markdown for people."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dwise_predict.files import write_text
from dwise_predict.simulation.paper.comparison import CLEAR, Row, closeness, misorderings

_READABLE = {
    "_s": " (s)",
    "_pct": " (%)",
    "_rps": " (requests/s)",
    "_ms": " (ms)",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """How well the figures that nothing was fitted to agree, and whether runs are in order."""

    figures: int
    validation: int
    near: int
    far: int
    ordered_pairs: int
    misordered_pairs: int

    @property
    def near_share(self) -> float:
        """Share of the validation figures within 20% of the paper's."""
        return self.near / self.validation


def judge(rows: Sequence[Row]) -> Verdict:
    """Count."""
    validation = [closeness(row) for row in rows if not row.published.fitted]
    ordered, wrong = misorderings(rows)
    return Verdict(
        figures=len(rows),
        validation=len(validation),
        near=validation.count("near"),
        far=validation.count("far"),
        ordered_pairs=ordered,
        misordered_pairs=len(wrong),
    )


def describe(row: Row) -> str:
    """Which figure a row is about, in words."""
    figure = row.published
    name = figure.figure
    unit = next((u for ending, u in _READABLE.items() if name.endswith(ending)), "")
    if unit:
        name = name[: name.rindex("_")]
    return f"{figure.model}, {figure.arrival}, {figure.run}: {name.replace('_', ' ')}{unit}"


def number(value: float) -> str:
    """A figure to four digits, large ones without an exponent."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def write_validation(rows: Sequence[Row], folder: Path, complete: bool) -> list[Path]:
    """Write ``validation.json`` and ``validation.md`` into ``folder``; returns their paths.

    A comparison of chosen tables or models is written as ``partial.json`` and ``partial.md``, so
    that it does not replace the complete one.
    """
    records = [
        {
            "table": row.published.table,
            "figure": describe(row),
            "paper": row.published.value,
            "ours": row.ours,
            "fitted": row.published.fitted,
        }
        for row in rows
    ]
    name = "validation" if complete else "partial"
    as_json, as_text = folder / f"{name}.json", folder / f"{name}.md"
    write_text(as_json, json.dumps(records, indent=1) + "\n")
    write_text(as_text, _page(rows))
    return [as_json, as_text]


def _page(rows: Sequence[Row]) -> str:
    verdict = judge(rows)
    lines = [
        "# The paper's figures and the simulator's",
        "",
        f"{verdict.validation} figures nothing was fitted to: {verdict.near} "
        f"({verdict.near_share:.0%}) within 20%, {verdict.far} off by more than 40%. Of "
        f"{verdict.ordered_pairs} pairs of runs whose mean latencies the paper has more than "
        f"{CLEAR:.0%} apart, {verdict.misordered_pairs} are the other way round.",
    ]
    for table in dict.fromkeys(row.published.table for row in rows):
        lines += [
            "",
            f"## {table}",
            "",
            "| figure | paper | ours | ratio | |",
            "| --- | ---: | ---: | ---: | --- |",
        ]
        for row in rows:
            if row.published.table == table:
                note = "fitted" if row.published.fitted else _marks(row)
                lines.append(
                    f"| {describe(row)} | {number(row.published.value)} | {number(row.ours)} "
                    f"| {row.ratio:.2f} | {note} |"
                )
    _, wrong = misorderings(rows)
    if wrong:
        lines += ["", "## Pairs in another order than the paper's", ""]
        for faster, slower in wrong:
            lines.append(
                f"- {faster.published.table}, {faster.published.model}, "
                f"{faster.published.arrival}: {faster.published.run} before "
                f"{slower.published.run} in the paper ({faster.published.value:g} and "
                f"{slower.published.value:g} s), here {faster.ours:.1f} and {slower.ours:.1f} s"
            )
    return "\n".join(lines) + "\n"


def _marks(row: Row) -> str:
    return {"near": "", "middling": "off by more than 20%", "far": "off by more than 40%"}[
        closeness(row)
    ]
