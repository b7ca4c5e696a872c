from __future__ import annotations

import csv
import io

import pytest

from dwise_predict.experiments.experiment import Column
from dwise_predict.experiments.table import comma_separated, grid, markdown
from dwise_predict.experiments.values import Key, Summary, Value, paper_figures, summarised

VALUES = [
    Value("burst", "SGLang", "mean_latency_s", 0, 8.0),
    Value("burst", "DWISE", "mean_latency_s", 0, 2.0),
    Value("burst", "SGLang", "mean_latency_s", 1, 10.0),
    Value("burst", "DWISE", "mean_latency_s", 1, 2.0),
    Value("burst", "DWISE", "speedup", 0, 4.0),
    Value("burst", "DWISE", "speedup", 1, 5.0),
    Value("burst", "other", "not shown", 0, 1.0),
]
PAPER = {
    Key("burst", "SGLang", "mean_latency_s"): 545.5,
    Key("burst", "DWISE", "mean_latency_s"): 76.9,
    Key("poisson", "DWISE", "speedup"): 3.0,
}
COLUMNS = (Column("mean_latency_s", "mean (s)", ".1f"), Column("speedup", "×", ".2f"))


def test_summaries_are_over_seeds() -> None:
    found = summarised(VALUES)
    assert found[Key("burst", "SGLang", "mean_latency_s")] == Summary(9.0, pytest.approx(2**0.5), 2)
    assert found[Key("burst", "other", "not shown")] == Summary(1.0, 0.0, 1)


def test_a_table_has_the_paper_beside_ours_where_it_has_a_figure() -> None:
    table = grid(VALUES, COLUMNS, PAPER)
    assert table.headers == ("arrivals", "", "mean (s)", "paper", "×")
    assert table.rows == (
        ("burst", "SGLang", "9.0 ± 1.4", "545.5", "–"),
        ("burst", "DWISE", "2.0 ± 0", "76.9", "4.50 ± 0.71"),
    )


def test_a_table_without_arrivals_has_no_such_column() -> None:
    values = [Value("", "Ridge", "spearman", 0, 0.5)]
    table = grid(values, (Column("spearman", "rho", ".2f", spread=False),), {})
    assert table == (("", "rho"), (("Ridge", "0.50"),), 1)
    assert markdown(table) == "|  | rho |\n| --- | ---: |\n| Ridge | 0.50 |\n"


def test_every_figure_is_in_the_csv_shown_or_not() -> None:
    rows = list(csv.DictReader(io.StringIO(comma_separated(VALUES, PAPER))))
    assert [row["figure"] for row in rows].count("not shown") == 1
    sglang = rows[0]
    assert (sglang["run"], sglang["ours"], sglang["seeds"]) == ("SGLang", "9.0", "2")
    assert (sglang["paper"], rows[-1]["paper"]) == ("545.5", "")


def test_the_papers_ratios_are_derived_from_its_seconds() -> None:
    paper = paper_figures()
    assert paper[Key("burst", "DWISE", "speedup")] == pytest.approx(545.5 / 76.9)
    assert paper[Key("burst+poisson", "Oracle", "speedup")] == 13.10
    assert paper[Key("burst", "code", "category_p99_speedup")] == pytest.approx(1038 / 81)
    assert paper[Key("burst+poisson", "chat", "category_max_speedup")] == pytest.approx(1016 / 224)
