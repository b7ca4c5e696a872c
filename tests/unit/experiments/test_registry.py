from __future__ import annotations

import re
from pathlib import Path

import pytest

from dwise_predict.errors import ExperimentError
from dwise_predict.experiments.case import RUNS, Case
from dwise_predict.experiments.experiment import Experiment
from dwise_predict.experiments.registry import EXPERIMENTS
from dwise_predict.experiments.run import chosen
from dwise_predict.experiments.settings import ENGINES, Settings
from dwise_predict.experiments.values import paper_figures
from dwise_predict.experiments.work import Stage
from dwise_predict.recipe import load_recipe

EVERY = list(EXPERIMENTS.values())


def settings(engine: str = "torch", seeds: int = 2) -> Settings:
    return Settings(engine, load_recipe("tiny"), seeds, Path("runs/x"), 1)  # type: ignore[arg-type]


def test_every_table_and_figure_of_the_evaluation_has_an_experiment() -> None:
    sources = " ".join(experiment.source for experiment in EVERY)
    tables = set(map(int, re.findall(r"\d+", sources)))
    # 1 and 3 to 5 are figures without results, Table 1 is the workload.
    assert {2, *range(3, 18)} <= tables
    for figure in (1, 2, 6, 7, 8, 9, 10, 11):
        assert re.search(rf"Figures? (\d+ and )?{figure}\b", sources), figure


@pytest.mark.parametrize("experiment", EVERY, ids=lambda e: e.name)
def test_work_of_one_place_is_the_same_and_needs_come_before(experiment: Experiment) -> None:
    work = experiment.work(settings())
    places: dict[str, object] = {}
    for piece in work:
        assert places.setdefault(piece.place, piece) == piece
        assert not Path(piece.place).is_absolute()
    if any(piece.stage is not Stage.BASE for piece in work):
        assert any(piece.stage is Stage.BASE for piece in work)


@pytest.mark.parametrize("experiment", EVERY, ids=lambda e: e.name)
def test_titles_and_reasons_are_said(experiment: Experiment) -> None:
    assert experiment.title and experiment.columns
    assert len({column.figure for column in experiment.columns}) == len(experiment.columns)
    assert set(experiment.not_with) <= set(ENGINES)
    assert len(experiment.differences) > 100, experiment.name


def test_cases_that_differ_have_folders_that_differ() -> None:
    cases = [
        Case("DWISE"),
        Case("DWISE", "burst+poisson"),
        Case("DWISE", multiplier=2),
        Case("DWISE", order=1),
        Case("DWISE", repeat=1),
        Case("DWISE", budget=64),
        Case("DWISE", threads=2),
        Case("DWISE", "poisson", load=0.5),
        *(Case(run) for run in RUNS if run != "DWISE"),
    ]
    assert len({case.name for case in cases}) == len(cases)
    assert Case("DWISE without choice", "burst+poisson", 2.5).name == (
        "burst-poisson_dwise-without-choice_load-2.5"
    )


def test_the_papers_runs_are_called_as_the_paper_calls_them() -> None:
    known = {key.run for key in paper_figures()}
    missing = set(RUNS) - known
    assert missing <= {"DWISE extended", "DWISE without choice"}


def test_all_leaves_out_what_an_engine_cannot_do() -> None:
    possible, impossible = chosen(["all"], settings("simulator"))
    assert {e.name for e in impossible} == {"overhead", "repeatability", "parallelism"}
    assert len(possible) + len(impossible) == len(EVERY)
    with pytest.raises(ExperimentError, match=r"overhead cannot be run with --engine simulator: a"):
        chosen(["overhead"], settings("simulator"))


def test_unknown_experiments_are_named_with_the_closest() -> None:
    with pytest.raises(ExperimentError, match="unknown experiment 'rankin'; did you mean 'ranking"):
        chosen(["rankin"], settings())
