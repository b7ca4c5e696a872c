"""Published figures, and how they are compared."""

from __future__ import annotations

import pytest

from dwise_predict.simulation.paper.comparison import (
    Published,
    Row,
    closeness,
    compare,
    misorderings,
    published_figures,
)
from dwise_predict.simulation.paper.validation import describe, judge, number


def published(run: str, value: float, figure: str = "mean_latency_s", **more: object) -> Published:
    fields = {
        "table": "Table 2",
        "model": "LLaDA2.1-mini",
        "arrival": "burst",
        "run": run,
        "figure": figure,
        "value": value,
        "fitted": False,
    }
    return Published(**(fields | more))  # type: ignore[arg-type]


def test_the_papers_figures_are_all_there() -> None:
    figures = published_figures()
    keys = [(f.table, f.model, f.arrival, f.run, f.figure) for f in figures]
    assert len(set(keys)) == len(keys)
    by_table = {f.table for f in figures}
    tables = {"Table 2", "Table 3", "Table 4", "Table 5", "Table 6", "Table 10", "Table 15"}
    assert tables | {"Table 16", "Figure 8", "Figure 9", "Figure 10"} <= by_table
    # All seven policies on all five models, both arrivals, mean latency and throughput.
    assert sum(f.table == "Table 2" for f in figures) == 7 * 5 * 2 * 2
    assert sum(not f.fitted for f in figures) >= 60
    assert {f.value for f in figures if f.table == "Figure 8"} == {2.35, 8.15, 10.33, 11.06, 13.10}


@pytest.mark.parametrize(
    ("ours", "expected"),
    [(100, "near"), (81, "near"), (125, "middling"), (59, "far"), (141, "far")],
)
def test_closeness(ours: float, expected: str) -> None:
    assert closeness(Row(published("SGLang", 100.0), ours)) == expected


def test_misorderings_are_pairs_the_paper_orders_clearly() -> None:
    rows = [
        Row(published("SGLang", 100.0), 50.0),
        Row(published("MLFQ", 102.0), 40.0),  # too close to SGLang to be an order
        Row(published("DWISE", 10.0), 60.0),
        Row(published("DWISE", 10.0, arrival="burst+poisson"), 99.0),  # alone in its group
        Row(published("SGLang", 4.0, figure="throughput_rps"), 1.0),
    ]
    ordered, wrong = misorderings(rows)
    assert ordered == 2
    assert [(a.published.run, b.published.run) for a, b in wrong] == [
        ("DWISE", "SGLang"),
        ("DWISE", "MLFQ"),
    ]


def test_the_verdict_counts_only_what_nothing_was_fitted_to() -> None:
    rows = [
        Row(published("SGLang", 100.0), 100.0),
        Row(published("DWISE", 10.0), 15.0),
        Row(published("MLFQ", 10.0, fitted=True), 15.0),
    ]
    verdict = judge(rows)
    assert (verdict.figures, verdict.validation, verdict.near, verdict.far) == (3, 2, 1, 1)
    assert verdict.near_share == 0.5


def test_figures_in_words_and_numbers() -> None:
    row = Row(published("DWISE", 2819, figure="prefill_only_time_pct"), 11.0)
    assert describe(row) == "LLaDA2.1-mini, burst, DWISE: prefill only time (%)"
    assert number(63926.0) == "63,926"
    assert number(0.12345) == "0.1235"


def test_two_tables_replayed() -> None:
    """Round composition, within 10% of Table 3's rounds and slots, and the components' order."""
    chosen = [f for f in published_figures() if f.table in ("Table 3", "Figure 8")]
    calls: list[tuple[int, int]] = []
    rows = compare(chosen, 2, lambda done, total: calls.append((done, total)))
    assert calls[-1][0] == calls[-1][1] == len(calls)
    ours = {(r.published.table, r.published.run, r.published.figure): r for r in rows}
    for run in ("SGLang", "DWISE"):
        for figure in ("rounds", "filled_slots"):
            assert ours["Table 3", run, figure].deviation < 0.10
    speedups = [r.ours for r in rows if r.published.table == "Figure 8"]
    assert speedups == sorted(speedups)
