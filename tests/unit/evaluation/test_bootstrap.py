from __future__ import annotations

import numpy as np
import pytest

from dwise_predict.evaluation.bootstrap import bootstrap, standard_errors


def mean_of(values: np.ndarray) -> object:
    return lambda rows: np.array([values[rows].mean()])


def test_the_standard_error_of_a_mean_is_the_textbook_one() -> None:
    values = np.random.default_rng(0).normal(size=400)
    groups = np.arange(400).astype(np.str_)
    error = standard_errors(bootstrap(mean_of(values), groups, draws=2000))[0]
    assert error == pytest.approx(values.std() / 20, rel=0.06)


def test_requests_of_one_prompt_count_once() -> None:
    """Eight copies of each prompt: the error is that of the 50 prompts, not of 400 requests."""
    values = np.repeat(np.random.default_rng(1).normal(size=50), 8)
    groups = np.repeat(np.arange(50), 8).astype(np.str_)
    error = standard_errors(bootstrap(mean_of(values), groups, draws=2000))[0]
    assert error == pytest.approx(values.std() / np.sqrt(50), rel=0.08)
    alone = standard_errors(bootstrap(mean_of(values), np.arange(400).astype(np.str_)))[0]
    assert error > 2.4 * alone


def test_a_single_prompt_says_nothing_of_how_much_figures_vary() -> None:
    values = np.random.default_rng(2).normal(size=30)
    drawn = bootstrap(mean_of(values), np.array(["same"] * 30), draws=7)
    assert drawn.shape == (7, 1) and np.isnan(standard_errors(drawn)).all()


def test_whole_groups_are_drawn_as_many_as_there_are() -> None:
    groups = np.array(["b", "a", "b", "c"])
    seen = []
    bootstrap(lambda rows: seen.append(sorted(rows.tolist())) or np.zeros(1), groups, draws=50)
    parts = {"a": [1], "b": [0, 2], "c": [3]}
    possible = [sorted(parts[x] + parts[y] + parts[z]) for x in parts for y in parts for z in parts]
    assert all(rows in possible for rows in seen)
    assert len({tuple(rows) for rows in seen}) > 5


def test_the_seed_decides() -> None:
    groups = np.arange(30).astype(np.str_)
    values = np.arange(30.0)
    a, b = (bootstrap(mean_of(values), groups, draws=20, seed=3) for _ in range(2))
    assert (a == b).all()
    assert (a != bootstrap(mean_of(values), groups, draws=20, seed=4)).any()


def test_undefined_values_are_left_out_and_too_many_leave_nothing() -> None:
    few = np.array([[1.0, np.nan], [2.0, np.nan], [np.nan, np.nan], [3.0, 1.0]])
    errors = standard_errors(few)
    assert errors[0] == pytest.approx(np.std([1, 2, 3], ddof=1))
    assert np.isnan(errors[1])
