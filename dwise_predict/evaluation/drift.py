"""Whether a bundle still fits the traffic: its own metrics against those on new requests.

**The rule.** Each watched figure is compared with the bundle's own, from its metrics.json. The
difference has a 95% interval: its standard error on the new requests is bootstrapped over prompts,
and that of the bundle's own figure is the same, scaled by the square root of the ratio of requests.
A figure *drifted* when the whole interval is worse than the tolerance, *holds* when the whole
interval is within it, and is *unclear* otherwise: then more requests are needed.

* Rank of refined predictions inside categories (tolerance 0.1): for each category its own value in
  the bundle where it has one (20 requests at least), else the bundle's mean over categories, both
  weighted by the new requests. What people ask for may change without any prediction getting
  worse, and a mean over the bundle's mix would blame the predictors for it.
* Ranks overall, refined and at admission (0.1), only while the mix of categories is the bundle's
  (total variation of at most 0.1), or where the requests have one category that the bundle does
  not know, such as "live": then there is nothing else.
* Median predicted / actual, refined and at admission (10%).
* Coverage of the central 80% of predicted distributions (0.1).

The tolerances of ranks and ratios are what costs some 3% of mean latency in the paper's Table 5: a
rank of 0.71 instead of 0.89 costs 5% there, and a ratio of 1.16 instead of 1.00 costs 4 to 5%.

Drifted ranks or coverage mean *refresh*: train further. Drifted ratios alone mean *recalibrate*.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from dwise_predict.bundle.metrics import (
    Metrics,
    RankMetrics,
    RoundsSummary,
    SurvivalMetrics,
)
from dwise_predict.evaluation.bootstrap import DRAWS, NORMAL_95, bootstrap, standard_errors
from dwise_predict.evaluation.judged import FIGURES, Judged
from dwise_predict.evaluation.metrics import rounds_summary

Status = Literal["holds", "drifted", "unclear"]
Advice = Literal["keep", "recalibrate", "refresh", "unclear"]
RANK_TOLERANCE = 0.1
RATIO_TOLERANCE = 0.10
COVERAGE_TOLERANCE = 0.10
MIN_PROMPTS = 20
"""Fewer different prompts say too little of how much figures vary."""
MIN_IN_CATEGORY = 20
"""Fewest requests of a category, here and in the bundle's own evaluation, for a rank inside it."""
SAME_MIX = 0.1
"""Most total variation between two mixes of categories whose overall ranks compare."""
_NOMINAL_COVERAGE = 0.8


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Figure(_Record):
    """A watched figure; logarithms of ratios are compared, so that 2 is as far off as 1/2."""

    name: str = Field(description="What is watched.")
    own: float = Field(description="In the bundle's metrics.json.")
    now: float = Field(description="On the new requests.")
    change: float = Field(description="now - own, of logarithms for ratios.")
    low: float = Field(description="Lower end of its 95% interval.")
    high: float = Field(description="Upper end of its 95% interval.")
    tolerance: float = Field(description="Change that does not matter.")
    status: Status = Field(description="What the interval says.")


class Verdict(_Record):
    """What to do, by the rule of :mod:`dwise_predict.evaluation.drift`."""

    advice: Advice = Field(
        description="keep; recalibrate: refit the calibration; refresh: train further; unclear: "
        "more requests are needed."
    )
    reasons: tuple[str, ...] = Field(description="One sentence each.")


class Drift(_Record):
    """How a bundle does on new requests."""

    requests: int = Field(description="That were evaluated.")
    aborted: int = Field(description="Of these; censored, and not ranked.")
    rounds: RoundsSummary = Field(description="Of those that were served to their end.")
    admission: RankMetrics | None = Field(
        description="None: the profile lacks the token_bins that this bundle's admission needs."
    )
    refined: RankMetrics
    refined_raw: RankMetrics
    survival: SurvivalMetrics
    mix_distance: float | None = Field(
        description="Total variation between the mixes of categories; None: the bundle knows none "
        "of them, or does not say (formats before 1.3)."
    )
    figures: tuple[Figure, ...]
    verdict: Verdict


def measure_drift(judged: Judged, own: Metrics, seed: int = 0, draws: int = DRAWS) -> Drift:
    """Compare what a bundle does on new requests (one finished at least) with its own metrics.

    Args:
        judged: predictions for requests that it was not trained on.
        own: its metrics.json.
        seed: of the bootstrap.
        draws: of the bootstrap.
    """
    finished = judged.examples.finished
    category = judged.examples.category[finished]
    known = _own_ranks(own)
    mix = _mix_distance(category, own)
    lone = len(np.unique(category)) == 1 and str(category[0]) not in known
    weights = [] if lone else category_weights(category)
    overall = lone or (mix is not None and mix <= SAME_MIX)
    ranks = judged.ranks()
    refined, refined_raw = ranks["refined"], ranks["refined_raw"]
    assert refined is not None and refined_raw is not None
    prompts = len(np.unique(judged.examples.prompt[finished]))
    if prompts < MIN_PROMPTS:
        figures: tuple[Figure, ...] = ()
        few = f"{prompts} different prompts, expected {MIN_PROMPTS} at least: too few to tell"
        verdict = Verdict(advice="unclear", reasons=(few,))
    else:
        figures = _figures(judged, own, weights, overall, seed, draws)
        verdict = verdict_of(figures)
    return Drift(
        requests=len(judged.examples),
        aborted=int((~finished).sum()),
        rounds=rounds_summary(judged.examples.rounds[finished]),
        admission=ranks["admission"],
        refined=refined,
        refined_raw=refined_raw,
        survival=judged.survival,
        mix_distance=mix,
        figures=figures,
        verdict=verdict,
    )


def category_weights(category: NDArray[np.str_]) -> list[tuple[str, float]]:
    """Categories of :data:`MIN_IN_CATEGORY` requests at least, with their share of all."""
    names, counts = np.unique(category, return_counts=True)
    return [
        (str(name), float(count / len(category)))
        for name, count in zip(names, counts, strict=True)
        if count >= MIN_IN_CATEGORY
    ]


def verdict_of(figures: Sequence[Figure]) -> Verdict:
    """Apply the rule."""
    by_status = {
        status: [figure for figure in figures if figure.status == status]
        for status in ("holds", "drifted", "unclear")
    }
    drifted, unclear = by_status["drifted"], by_status["unclear"]
    reasons = tuple(_reason(figure) for figure in (*drifted, *unclear))
    if any(not figure.name.endswith("ratio") for figure in drifted):
        return Verdict(advice="refresh", reasons=reasons)
    if drifted:
        return Verdict(advice="recalibrate", reasons=reasons)
    if unclear or not figures:
        return Verdict(advice="unclear", reasons=reasons or ("nothing could be compared",))
    return Verdict(advice="keep", reasons=("every watched figure is within its tolerance",))


def status_of(low: float, high: float, tolerance: float, two_sided: bool) -> Status:
    """What an interval of a change says; one-sided figures may get better without limit."""
    if high < -tolerance or (two_sided and low > tolerance):
        return "drifted"
    if low > -tolerance and (not two_sided or high < tolerance):
        return "holds"
    return "unclear"


def _figures(
    judged: Judged,
    own: Metrics,
    weights: Sequence[tuple[str, float]],
    overall: bool,
    seed: int,
    draws: int,
) -> tuple[Figure, ...]:
    n = len(judged.examples)
    now = dict(zip(FIGURES, judged.figures(np.arange(n), weights), strict=True))
    drawn = bootstrap(
        lambda rows: _in_logarithms(judged.figures(rows, weights)),
        judged.examples.prompt,
        draws,
        seed,
    )
    errors = dict(zip(FIGURES, standard_errors(drawn), strict=True))
    told = own.survival.coverage_80
    references = {
        "refined rank inside": _weighted_own(own.refined, _own_ranks(own), weights),
        "refined rank overall": own.refined.spearman if overall else None,
        "admission rank overall": own.admission.spearman if overall else None,
        "refined ratio": own.refined.median_ratio,
        "admission ratio": own.admission.median_ratio,
        "coverage": _NOMINAL_COVERAGE if told is None else told,
    }
    widening = NORMAL_95 * math.sqrt(1 + n / own.n_eval)
    found = [
        _figure(name, reference, now[name], errors[name] * widening)
        for name, reference in references.items()
        if reference is not None and math.isfinite(now[name]) and math.isfinite(errors[name])
    ]
    return tuple(found)


def _figure(name: str, own: float, now: float, half: float) -> Figure:
    ratio, coverage = name.endswith("ratio"), name == "coverage"
    change = math.log(now / own) if ratio else now - own
    tolerance = RANK_TOLERANCE
    if ratio:
        tolerance = math.log1p(RATIO_TOLERANCE)
    elif coverage:
        tolerance = COVERAGE_TOLERANCE
    low, high = change - half, change + half
    return Figure(
        name=name,
        own=own,
        now=now,
        change=change,
        low=low,
        high=high,
        tolerance=tolerance,
        status=status_of(low, high, tolerance, two_sided=ratio or coverage),
    )


def _in_logarithms(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Figures with ratios as their logarithms."""
    ratios = np.array([name.endswith("ratio") for name in FIGURES])
    return np.log(values, out=values.copy(), where=ratios)


def _own_ranks(own: Metrics) -> dict[str, float]:
    """The bundle's own refined rank inside each category of enough requests."""
    found = {
        name: row.spearman
        for name, row in own.refined.by_category.items()
        if row.n >= MIN_IN_CATEGORY and row.spearman is not None
    }
    if not own.refined.by_category:  # formats before 1.3 tell it of categories that were held out
        for name, row in own.held_out.items():
            inside = row.refined.in_training
            if len(row.categories) == 1 and row.n_eval >= MIN_IN_CATEGORY and inside is not None:
                found[name] = inside
    return found


def _weighted_own(
    rank: RankMetrics, known: Mapping[str, float], weights: Sequence[tuple[str, float]]
) -> float | None:
    values = [known.get(name, rank.spearman_within) for name, _ in weights]
    pairs = [
        (value, weight)
        for value, (_, weight) in zip(values, weights, strict=True)
        if value is not None
    ]
    if not pairs:
        return None
    return sum(v * w for v, w in pairs) / sum(w for _, w in pairs)


def _mix_distance(category: NDArray[np.str_], own: Metrics) -> float | None:
    """Total variation between the categories of new requests and of the bundle's evaluation."""
    before = {name: row.n for name, row in own.refined.by_category.items()}
    before = before or {name: row.n_eval for name, row in own.held_out.items() if "+" not in name}
    names, counts = np.unique(category, return_counts=True)
    after = {str(name): int(count) for name, count in zip(names, counts, strict=True)}
    if not before.keys() & after.keys():
        return None
    old, new = sum(before.values()), sum(after.values())
    return 0.5 * sum(
        abs(before.get(name, 0) / old - after.get(name, 0) / new)
        for name in sorted(before.keys() | after.keys())  # sums of floats depend on the order
    )


def _reason(figure: Figure) -> str:
    what = {
        "drifted": "drifted",
        "unclear": "may have drifted, or not",
        "holds": "holds",
    }[figure.status]
    if figure.name.endswith("ratio"):
        low, high = math.exp(figure.low), math.exp(figure.high)
        change = f"times {math.exp(figure.change):.2f} ({low:.2f} to {high:.2f})"
    else:
        change = f"{figure.change:+.3f} ({figure.low:+.3f} to {figure.high:+.3f})"
    return f"{figure.name} {what}: {figure.own:.3f} -> {figure.now:.3f}, change {change}"
