"""The paper's figures beside the simulator's."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import combinations
from statistics import mean
from typing import Literal, cast

from dwise_predict.simulation.arrivals import Pattern
from dwise_predict.simulation.paper.runs import Run, measured
from dwise_predict.simulation.paper.workers import worker_pool

SEEDS = (1, 2, 3)
"""Orders and arrivals of Table 10."""

RATES_LOW = (0.94, 1.88, 2.8)
RATES_HIGH = (7.5, 15.0)
"""Arrival rates of Figure 9 in requests/s. The paper names 7.5, 15, and 3.8 as SGLang's own
throughput; rates closer to that are left out, because there a few percent of capacity decide
whether SGLang's queue grows without end."""

OVER_SEEDS = " over seeds"
NEAR, FAR = 0.20, 0.40
"""Relative deviations by which figures are called near and far."""

Figures = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Published:
    """One printed figure: in which run, what, and whether it was used to fit anything."""

    table: str
    model: str
    arrival: Pattern
    run: str
    figure: str
    value: float
    fitted: bool


@dataclass(frozen=True, slots=True)
class Row:
    """A published figure and the simulator's."""

    published: Published
    ours: float

    @property
    def ratio(self) -> float:
        """Ours over the paper's."""
        return self.ours / self.published.value

    @property
    def deviation(self) -> float:
        """Relative deviation."""
        return abs(self.ratio - 1)


def published_figures() -> list[Published]:
    """All of ``published.csv``."""
    text = files("dwise_predict.simulation.paper").joinpath("published.csv").read_text("utf-8")
    return [
        Published(
            table=row["table"],
            model=row["model"],
            arrival=cast(Pattern, row["arrival"]),
            run=row["run"],
            figure=row["figure"],
            value=float(row["value"]),
            fitted=row["fitted"] == "yes",
        )
        for row in csv.DictReader(text.splitlines())
    ]


def compare(
    published: Sequence[Published],
    processes: int,
    on_done: Callable[[int, int], None] | None = None,
) -> list[Row]:
    """Replay all that ``published`` needs and put the figures side by side.

    ``on_done`` is called with the number of replays done and their total.
    """
    needed = list(dict.fromkeys(run for figure in published for run in _needed(figure)))
    # The longest replays first, so that none of them is alone at the end.
    needed.sort(key=lambda run: run.model != "SDAR-8B")
    results: dict[Run, Figures] = {}
    with worker_pool(min(processes, len(needed))) as pool:
        for run, figures in zip(needed, pool.map(measured, needed), strict=True):
            results[run] = figures
            if on_done is not None:
                on_done(len(results), len(needed))
    return [Row(figure, _ours(figure, results)) for figure in published]


CLEAR = 0.03
"""Relative distance from which on two latencies of the paper count as ordered."""


def misorderings(rows: Iterable[Row], margin: float = CLEAR) -> tuple[int, list[tuple[Row, Row]]]:
    """Pairs of runs that the simulator orders otherwise than the paper does in mean latency.

    Pairs that the paper has closer than ``margin`` apart do not count as ordered. Returns the
    number of ordered pairs and those that are the other way round.
    """
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        figure = row.published
        if figure.figure == "mean_latency_s" and OVER_SEEDS not in figure.run:
            groups.setdefault((figure.table, figure.model, figure.arrival), []).append(row)
    ordered, wrong = 0, []
    for members in groups.values():
        for a, b in combinations(members, 2):
            faster, slower = sorted((a, b), key=lambda row: row.published.value)
            if slower.published.value < (1 + margin) * faster.published.value:
                continue
            ordered += 1
            if faster.ours >= slower.ours:
                wrong.append((faster, slower))
    return ordered, wrong


Closeness = Literal["near", "middling", "far"]


def closeness(row: Row) -> Closeness:
    """Whether a figure is within 20%, within 40%, or further off."""
    if row.deviation <= NEAR:
        return "near"
    return "middling" if row.deviation <= FAR else "far"


def _needed(figure: Published) -> list[Run]:
    if figure.arrival == "poisson":
        rates = RATES_LOW if "_low_" in figure.figure else RATES_HIGH
        return [
            Run(figure.model, "poisson", name, rate)
            for rate in rates
            for name in ("SGLang", figure.run)
        ]
    if figure.run.endswith(OVER_SEEDS):
        name = figure.run.removesuffix(OVER_SEEDS)
        return [
            Run(figure.model, figure.arrival, n, seed=seed)
            for seed in SEEDS
            for n in ("SGLang", name)
        ]
    names = [figure.run]
    if figure.figure in _AGAINST_SGLANG:
        names.append("SGLang")
    if figure.figure == "mean_latency_ratio":
        names.append("DWISE")
    return [Run(figure.model, figure.arrival, name) for name in names]


def _ours(figure: Published, results: Mapping[Run, Figures]) -> float:
    if figure.arrival == "poisson":
        return _over_rates(figure, results)
    if figure.run.endswith(OVER_SEEDS):
        name = figure.run.removesuffix(OVER_SEEDS)
        return mean(
            _one(
                figure,
                results[Run(figure.model, figure.arrival, name, seed=seed)],
                results[Run(figure.model, figure.arrival, "SGLang", seed=seed)],
            )
            for seed in SEEDS
        )
    own = results[Run(figure.model, figure.arrival, figure.run)]
    other = "DWISE" if figure.figure == "mean_latency_ratio" else "SGLang"
    return _one(figure, own, results.get(Run(figure.model, figure.arrival, other), own))


def _over_rates(figure: Published, results: Mapping[Run, Figures]) -> float:
    """``(mean|p99)_speedup_(low|high)_(min|max)``: extremes of the speedup over arrival rates."""
    what, _, load, extreme = figure.figure.split("_")
    key = f"{what}_latency_s"
    speedups = [
        results[Run(figure.model, "poisson", "SGLang", rate)][key]
        / results[Run(figure.model, "poisson", figure.run, rate)][key]
        for rate in (RATES_LOW if load == "low" else RATES_HIGH)
    ]
    return min(speedups) if extreme == "min" else max(speedups)


def _one(figure: Published, own: Figures, other: Figures) -> float:
    compute = _DERIVED.get(figure.figure)
    return own[figure.figure] if compute is None else compute(own, other)


def _ratio(key: str) -> Callable[[Figures, Figures], float]:
    return lambda own, other: own[key] / other[key]


def _speedup(key: str) -> Callable[[Figures, Figures], float]:
    return lambda own, other: other[key] / own[key]


def _difference(key: str) -> Callable[[Figures, Figures], float]:
    return lambda own, other: own[key] - other[key]


_DERIVED: dict[str, Callable[[Figures, Figures], float]] = {
    "speedup": _speedup("mean_latency_s"),
    "p50_speedup": _speedup("p50_latency_s"),
    "p99_speedup": _speedup("p99_latency_s"),
    "delta_choice_s": _difference("choice_latency_sum_s"),
    "delta_other_s": _difference("other_latency_sum_s"),
    "idle_resident_rounds_ratio": _ratio("idle_resident_rounds"),
    "mean_latency_ratio": _ratio("mean_latency_s"),
}
"""Figures that compare a run with another: with DWISE for ``mean_latency_ratio``, else SGLang."""

_AGAINST_SGLANG = frozenset(_DERIVED) - {"mean_latency_ratio"}
