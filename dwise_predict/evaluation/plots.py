"""Plots of the report as inline SVG: text and grid take the colours of the page around them."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

Floats = npt.NDArray[np.floating]

ADMISSION, RAW, REFINED = "#d97706", "#8b7fd1", "#2f7fd6"
PREFILL, DENOISE = "#d97706", "#2f7fd6"
_TRUTH = "#d1495b"
# Stand-ins that the SVG writer prints verbatim; they become CSS values afterwards.
_INK, _GRID = "#010203", "#040506"
_CSS = {_INK: "currentColor", _GRID: "var(--grid)"}
_SVG_TAG = r'<svg xmlns="http://www.w3.org/2000/svg" viewBox="\1" role="img">'
_STYLE: Any = {
    # Categories and request ids are shown as they are, dollar signs included.
    "text.parse_math": False,
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _GRID,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": _GRID,
    "grid.linewidth": 0.8,
    "xtick.color": _GRID,
    "ytick.color": _GRID,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}


@dataclass(frozen=True)
class Curve:
    """Survival of one request: P(more than t rounds) for t = 0, 1, …, and what happened."""

    label: str
    survival: Floats
    predicted: float
    true: int


def rounds_by_category(rounds: dict[str, npt.NDArray[np.int64]]) -> str:
    """Box and points of total rounds for each category, categories by rising median."""
    names = sorted(rounds, key=lambda name: (-float(np.median(rounds[name])), name))
    with _style("rounds"):
        figure = Figure(figsize=(9.2, 0.9 + 0.42 * len(names)))
        axes = figure.subplots()
        for row, name in enumerate(names):
            values = rounds[name]
            spread = np.random.default_rng(row).uniform(-0.28, 0.28, len(values))
            axes.plot(values, row + spread, "o", ms=2.6, mew=0, alpha=0.55, color=REFINED)
        axes.boxplot(
            [rounds[name] for name in names],
            orientation="horizontal",
            positions=range(len(names)),
            widths=0.5,
            showfliers=False,
            whis=(10, 90),
            boxprops={"color": _INK},
            whiskerprops={"color": _INK},
            capprops={"color": _INK},
            medianprops={"color": _TRUTH, "linewidth": 2},
        )
        axes.set_yticks(range(len(names)), [f"{name} ({len(rounds[name])})" for name in names])
        axes.grid(axis="y", visible=False)
        axes.set_xscale("log")
        axes.set_xlabel("denoising rounds")
        _plain_log(axes, "x")
        return _svg(figure)


def predicted_against_true(true: Floats, predictions: Sequence[tuple[str, str, Floats]]) -> str:
    """One panel per (title, colour, predicted rounds), log axes, with the line of equality."""
    with _style("scatter"):
        figure = Figure(figsize=(9.2, 4.5))
        panels = figure.subplots(1, len(predictions), sharex=True, sharey=True)
        everything = np.concatenate([true, *(values for _, _, values in predictions)])
        low, high = everything.min() * 0.85, everything.max() * 1.15
        for axes, (title, colour, values) in zip(np.atleast_1d(panels), predictions, strict=True):
            axes.plot([low, high], [low, high], color=_INK, lw=1, ls=(0, (4, 3)), alpha=0.6)
            axes.plot(true, values, "o", ms=4, mew=0, alpha=0.6, color=colour)
            axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), title=title)
            axes.set_xlabel("true rounds")
            axes.set_aspect("equal")
            _plain_log(axes, "x")
            _plain_log(axes, "y")
        np.atleast_1d(panels)[0].set_ylabel("predicted rounds")
        return _svg(figure)


def calibration(true: Floats, predictions: Sequence[tuple[str, str, Floats]]) -> str:
    """Left: distribution of predicted / true. Right: mean of both by decile of the prediction."""
    with _style("calibration"):
        figure = Figure(figsize=(9.2, 4.2))
        ratio_axes, decile_axes = figure.subplots(1, 2)
        edges = np.geomspace(1 / 8, 8, 49)
        low, high = np.inf, 0.0
        for name, colour, values in predictions:
            ratio = np.clip(values / true, edges[0], edges[-1])
            heights = np.histogram(ratio, edges)[0] / len(true)
            ratio_axes.stairs(heights, edges, color=colour, lw=1.8, label=name)
            ratio_axes.axvline(float(np.median(values / true)), color=colour, lw=1.2, ls=":")
            means = decile_means(values, true)
            decile_axes.plot(means[:, 0], means[:, 1], "o-", ms=5, lw=1.4, color=colour, label=name)
            low, high = min(low, means.min()), max(high, means.max())
        ratio_axes.set(xscale="log", title="Predicted / true (dotted: medians)")
        ratio_axes.set_xlabel("ratio (outermost bars: and beyond)")
        ratio_axes.set_ylabel("share of requests")
        ratio_axes.xaxis.set_major_locator(LogLocator(base=2))
        ratio_axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        ratio_axes.xaxis.set_minor_formatter(NullFormatter())
        ratio_axes.legend()
        limits = (low * 0.85, high * 1.15)
        decile_axes.plot(limits, limits, color=_INK, lw=1, ls=(0, (4, 3)), alpha=0.6)
        decile_axes.set(xscale="log", yscale="log", xlim=limits, ylim=limits)
        decile_axes.set(title="Reliability by decile", xlabel="mean predicted rounds")
        decile_axes.set_ylabel("mean true rounds")
        _plain_log(decile_axes, "x")
        _plain_log(decile_axes, "y")
        return _svg(figure)


def decile_means(predicted: Floats, true: Floats) -> Floats:
    """Mean predicted and mean true, [at most 10, 2], of equal groups by rising prediction."""
    order = np.argsort(predicted, kind="stable")
    groups = [group for group in np.array_split(order, 10) if len(group)]
    return np.array([[predicted[group].mean(), true[group].mean()] for group in groups])


def survival_curves(curves: Sequence[Curve]) -> str:
    """Small multiples: survival as refined after one round, its mean, and the true end."""
    columns = 3
    rows = -(-len(curves) // columns)
    with _style("survival"):
        figure = Figure(figsize=(9.2, 2.35 * rows))
        panels = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel()
        for axes, curve in zip(panels, curves, strict=False):
            below = np.flatnonzero(curve.survival < 0.01)
            end = int(below[0]) if len(below) else len(curve.survival)
            end = max(end, curve.true + 1, round(curve.predicted) + 1)
            t = np.arange(min(end + 1, len(curve.survival)))
            survival = curve.survival[: len(t)]
            axes.fill_between(t, survival, step="post", color=REFINED, alpha=0.18, lw=0)
            axes.step(t, survival, where="post", color=REFINED, lw=1.6)
            axes.axvline(curve.true, color=_TRUTH, lw=1.8)
            axes.axvline(curve.predicted, color=_INK, lw=1.2, ls=":")
            axes.set(title=curve.label, ylim=(0, 1.03), xlim=(0, None))
        for axes in panels[len(curves) :]:
            axes.set_visible(False)
        for row in range(rows):
            panels[row * columns].set_ylabel("P(still denoising)")
        for axes in panels[max(0, len(curves) - columns) : len(curves)]:
            axes.set_xlabel("denoising rounds")
        return _svg(figure)


def round_composition(
    wall_ms: Floats, prefill_slots: Floats, denoise_slots: Floats, slots: int, bins: int = 160
) -> str:
    """Share of slots that prefill, denoise or idle, over the serving time.

    Rounds are given in order; each counts by the time it took, so a bin's shares are of time.
    """
    ends = np.cumsum(wall_ms) / 1000
    edges = np.linspace(0, ends[-1], bins + 1)
    prefill = time_average(ends, prefill_slots, edges) / slots
    denoise = time_average(ends, denoise_slots, edges) / slots
    with _style("composition"):
        figure = Figure(figsize=(9.2, 2.9))
        axes = figure.subplots()
        axes.stairs(prefill + denoise, edges, baseline=prefill, fill=True, color=DENOISE, alpha=0.8)
        axes.stairs(prefill, edges, fill=True, color=PREFILL, alpha=0.9)
        axes.set(xlim=(0, edges[-1]), ylim=(0, 1), xlabel="serving time (s)")
        axes.set_ylabel("share of slots")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:.0%}"))
        return _svg(figure)


def time_average(ends: Floats, values: Floats, edges: Floats) -> Floats:
    """Mean of a step function (value i holds up to ``ends[i]``) between consecutive edges."""
    area = np.concatenate([[0.0], np.cumsum(values * np.diff(ends, prepend=0.0))])
    at_edges = np.interp(edges, np.concatenate([[0.0], ends]), area)
    averages: Floats = np.diff(at_edges) / np.diff(edges)
    return averages


def _plain_log(axes: Axes, which: str) -> None:
    """Label 1, 2, 5, 10, 20, … as they are."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def _style(salt: str) -> AbstractContextManager[None]:
    return matplotlib.rc_context({**_STYLE, "svg.hashsalt": salt})


def _svg(figure: Figure) -> str:
    """The figure as an <svg> element without ids of its own groups, the same for the same data."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg ") :]
    text = re.sub(r" <metadata>.*?</metadata>\n", "", text, flags=re.DOTALL)
    text = re.sub(r'<g id="[a-z_A-Z\d.]+_\d+">', "<g>", text)
    text = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", text)
    text = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', _SVG_TAG, text)
    text = text.replace("xlink:href=", "href=")
    for stand_in, css in _CSS.items():
        text = text.replace(stand_in, css)
    return text
