"""The rule against cases whose answer is known, and its figures against other ways to get them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from dwise_predict.bundle.metrics import Metrics, SurvivalMetrics
from dwise_predict.evaluation.drift import (
    Drift,
    Figure,
    category_weights,
    measure_drift,
    status_of,
    verdict_of,
)
from dwise_predict.evaluation.judged import FIGURES, Judged
from dwise_predict.evaluation.metrics import rounds_summary
from dwise_predict.predictors.examples import Examples
from tests.synthetic import synthetic_examples


def judged_by(examples: Examples, noise: float, seed: int, factor: float = 1.0) -> Judged:
    """Predictions that are the truth with log-normal errors, and exact probabilities."""
    rng = np.random.default_rng(seed)
    refined = factor * examples.rounds * np.exp(noise * rng.normal(size=len(examples)))
    return Judged(
        examples=examples,
        admission=factor * examples.rounds * np.exp(2 * noise * rng.normal(size=len(examples))),
        refined_raw=refined * 1.1,
        refined=refined,
        at_end=rng.random(len(examples)),
        survival=SurvivalMetrics(
            c_index=0.9, integrated_brier=0.05, d_calibration_p=0.5, coverage_80=0.8
        ),
        duration="completion",
    )


def own_metrics(judged: Judged) -> Metrics:
    ranks = judged.ranks()
    assert ranks["admission"] is not None and ranks["refined"] is not None
    return Metrics(
        rounds=rounds_summary(judged.examples.rounds),
        admission=ranks["admission"],
        refined=ranks["refined"],
        refined_raw=ranks["refined_raw"],
        held_out={},
        held_out_skipped={},
        survival=judged.survival,
        n_train=1000,
        n_eval=len(judged.examples),
        n_aborted=0,
    )


OWN = own_metrics(judged_by(synthetic_examples(1500, 1, 4), 0.3, 1))


def drift_of(judged: Judged, own: Metrics = OWN) -> Drift:
    return measure_drift(judged, own, draws=150)


def test_figures_are_those_of_scipy_and_numpy() -> None:
    examples = synthetic_examples(300, 2, 4, abort_share=0.2)
    judged = judged_by(examples, 0.5, 2)
    rows = np.random.default_rng(0).integers(300, size=260)
    weights = [("chat", 0.25), ("code", 0.75)]
    found = dict(zip(FIGURES, judged.figures(rows, weights), strict=True))
    kept = [i for i in rows if examples.finish_reason[i] != "abort"]
    true, refined, admission = examples.rounds[kept], judged.refined[kept], judged.admission[kept]
    inside = 0.0
    for name, weight in weights:
        own = examples.category[kept] == name
        inside += weight * stats.spearmanr(refined[own], true[own]).statistic
    expected = {
        "refined rank inside": inside,
        "refined rank overall": stats.spearmanr(refined, true).statistic,
        "admission rank overall": stats.spearmanr(admission, true).statistic,
        "refined ratio": np.median(refined / true),
        "admission ratio": np.median(admission / true),
        "refined error": np.abs(refined - true).mean(),
        "admission error": np.abs(admission - true).mean(),
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx(value), name
    after = [i for i in rows if examples.rounds[i] > 1]
    shares = []
    for i in after:
        s = judged.at_end[i]
        if examples.finish_reason[i] == "abort":  # spread evenly over [0, s]
            draws = np.linspace(0, s, 100_001)
            shares.append(((draws >= 0.1) & (draws <= 0.9)).mean())
        else:
            shares.append(0.1 <= s <= 0.9)
    assert found["coverage"] == pytest.approx(np.mean(shares), abs=1e-4)


@pytest.mark.parametrize(
    ("low", "high", "two_sided", "status"),
    [
        (-0.05, 0.05, True, "holds"),
        (-0.05, 0.30, False, "holds"),  # better is never drift
        (-0.05, 0.30, True, "unclear"),
        (0.11, 0.30, True, "drifted"),
        (-0.30, -0.11, False, "drifted"),
        (-0.30, -0.09, False, "unclear"),
        (-0.30, 0.30, True, "unclear"),
    ],
)
def test_what_an_interval_says(low: float, high: float, two_sided: bool, status: str) -> None:
    assert status_of(low, high, 0.1, two_sided) == status


def figure(name: str, status: str) -> Figure:
    return Figure(name=name, own=1, now=1, change=0, low=0, high=0, tolerance=0.1, status=status)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("statuses", "advice"),
    [
        ({"refined rank inside": "holds", "refined ratio": "holds"}, "keep"),
        ({"refined rank inside": "holds", "refined ratio": "drifted"}, "recalibrate"),
        ({"refined rank inside": "drifted", "refined ratio": "drifted"}, "refresh"),
        ({"coverage": "drifted"}, "refresh"),
        ({"refined rank inside": "unclear", "admission ratio": "drifted"}, "recalibrate"),
        ({"refined rank inside": "unclear", "refined ratio": "holds"}, "unclear"),
        ({}, "unclear"),
    ],
)
def test_the_verdict(statuses: dict[str, str], advice: str) -> None:
    assert verdict_of([figure(*item) for item in statuses.items()]).advice == advice


def test_the_same_traffic_holds() -> None:
    drift = drift_of(judged_by(synthetic_examples(1500, 3, 4), 0.3, 3))
    assert drift.verdict.advice == "keep"
    assert drift.mix_distance is not None and drift.mix_distance < 0.1
    assert len(drift.figures) == 6


def test_another_mix_of_equally_predictable_requests_holds() -> None:
    """Only multiple choice: ranks overall fall, because all rounds are alike, and nobody minds."""
    examples = synthetic_examples(6000, 4, 4)
    choice = examples.take(np.char.find(examples.category, "choice") >= 0)
    drift = drift_of(judged_by(choice, 0.3, 4))
    assert drift.verdict.advice == "keep"
    assert drift.refined.spearman < OWN.refined.spearman - 0.05
    assert not any("overall" in figure.name for figure in drift.figures)


def test_another_scale_asks_for_calibration_and_another_order_for_training() -> None:
    examples = synthetic_examples(1500, 5, 4)
    scaled = drift_of(judged_by(examples, 0.3, 5, factor=1.4))
    assert scaled.verdict.advice == "recalibrate"
    assert all("ratio" in reason for reason in scaled.verdict.reasons)
    worse = drift_of(judged_by(examples, 1.2, 5))
    assert worse.verdict.advice == "refresh"


def test_few_requests_say_nothing() -> None:
    assert drift_of(judged_by(synthetic_examples(40, 6, 4), 0.3, 6)).verdict.advice == ("unclear")


@pytest.mark.parametrize("prompts", [1, 19])
def test_few_prompts_say_nothing_however_often_they_are_asked(prompts: int) -> None:
    examples = synthetic_examples(600, 6, 4)
    names = np.array([f"prompt-{i % prompts}" for i in range(len(examples))])
    drift = drift_of(judged_by(replace(examples, prompt=names), 0.3, 6, factor=3.0))
    assert drift.verdict.advice == "unclear" and drift.figures == ()
    assert f"{prompts} different prompts, expected 20" in drift.verdict.reasons[0]


def test_one_unknown_category_is_compared_overall() -> None:
    examples = synthetic_examples(1500, 7, 4)
    live = replace(examples, category=np.full(len(examples), "live"))
    drift = drift_of(judged_by(live, 0.3, 7))
    assert {f.name for f in drift.figures} >= {"refined rank overall", "admission rank overall"}
    assert not any("inside" in f.name for f in drift.figures)
    assert drift.verdict.advice == "keep"


def test_without_admission_only_refined_predictions_are_watched() -> None:
    judged = judged_by(synthetic_examples(1500, 8, 4), 0.3, 8)
    judged = replace(judged, admission=np.full(1500, np.nan))
    drift = drift_of(judged)
    assert drift.admission is None
    assert not any("admission" in f.name for f in drift.figures)


def test_false_alarms_are_rarer_than_the_level_says() -> None:
    """Nothing drifts in any of 20 tries on traffic of the same kind and size."""
    advice = []
    for seed in range(20):
        own = own_metrics(judged_by(synthetic_examples(400, 100 + seed, 4), 0.4, seed))
        judged = judged_by(synthetic_examples(400, 200 + seed, 4), 0.4, 1000 + seed)
        advice.append(drift_of(judged, own).verdict.advice)
    assert sum(word in ("refresh", "recalibrate") for word in advice) <= 1


def test_weights_are_shares_of_large_categories() -> None:
    category = np.array(["a"] * 60 + ["b"] * 30 + ["c"] * 10)
    assert category_weights(category) == [("a", 0.6), ("b", 0.3)]
