import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from dwise_predict.evaluation import plots

TRUE = np.array([2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 100.0, 120.0, 200.0, 250.0, 260.0, 270.0])
PREDICTIONS = [("admission", plots.ADMISSION, TRUE * 1.5), ("refined", plots.REFINED, TRUE)]


def _figures() -> dict[str, str]:
    survival = np.linspace(1, 0, 40)
    return {
        "rounds": plots.rounds_by_category({"a<b": TRUE.astype(int), "c": np.array([3, 5])}),
        "scatter": plots.predicted_against_true(TRUE, PREDICTIONS),
        "calibration": plots.calibration(TRUE, PREDICTIONS),
        "survival": plots.survival_curves([plots.Curve("one & only", survival, 12.5, 14)] * 4),
        "composition": plots.round_composition(TRUE, TRUE * 0, np.full(12, 3.0), slots=4),
    }


@pytest.mark.parametrize("name", ["rounds", "scatter", "calibration", "survival", "composition"])
def test_figures_are_deterministic_svg_in_the_colours_of_the_page(name: str) -> None:
    svg = _figures()[name]
    assert svg == _figures()[name]
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert "currentColor" in svg and "var(--grid)" in svg
    assert "#010203" not in svg and "#040506" not in svg
    assert not re.search(r'id="(figure|axes|patch|text|line2d)_', svg)


def test_names_of_categories_are_escaped() -> None:
    assert "a&lt;b (12)" in _figures()["rounds"]


def test_decile_means_are_of_equal_groups_by_rising_prediction() -> None:
    predicted = np.arange(100.0)[::-1]
    means = plots.decile_means(predicted, predicted * 2)
    assert means.shape == (10, 2)
    assert means[0].tolist() == [4.5, 9.0]
    assert means[-1].tolist() == [94.5, 189.0]
    assert len(plots.decile_means(np.arange(3.0), np.arange(3.0))) == 3


def test_shares_over_time_weigh_rounds_by_how_long_they_took() -> None:
    ends, values = np.array([1.0, 4.0]), np.array([8.0, 2.0])
    np.testing.assert_allclose(
        plots.time_average(ends, values, np.array([0.0, 2.0, 4.0])), [(8 + 2) / 2, 2.0]
    )


def test_dollar_signs_in_names_are_shown_not_typeset() -> None:
    rounds = TRUE.astype(int)
    assert "cost $x_$ (12)" in plots.rounds_by_category({"cost $x_$": rounds})
    curve = plots.Curve("US$5 to US$9", np.linspace(1, 0, 40), 12.5, 14)
    assert "US$5 to US$9" in plots.survival_curves([curve] * 4)
