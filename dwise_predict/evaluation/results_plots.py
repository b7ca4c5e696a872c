"""Pictures of served workloads beside each other, as SVG files of their own."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from dwise_predict.simulation.timeline import IDLE, PROMPT, Timeline

Floats = npt.NDArray[np.float64]

_PROMPT, _DENOISING, _IDLE = "#d97706", "#2f7fd6", "#eceff3"
COLOURS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
"""Told apart with any colour vision (Okabe and Ito); more runs than colours repeat them dashed."""
_CURVE_POINTS = 1000
_LETTERS = "ABCDEFGHIJKL"
STYLE: Any = {
    "text.parse_math": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "dwise",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#dde1e7",
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}
"""Of every picture that is a file of its own."""


@dataclass(frozen=True)
class Panel:
    """Rounds of one run.

    Attributes:
        label: of the run.
        state: ``IDLE``, ``PROMPT`` or ``DENOISING``, int8 [slots, rounds].
        held: request in each slot, int64 [slots, rounds], -1 in idle ones.
        first: number of the first round shown.
        total: rounds of the whole run.
    """

    label: str
    state: npt.NDArray[np.int8]
    held: npt.NDArray[np.int64]
    first: int
    total: int


def panel(label: str, timeline: Timeline, slots: int, start: int, width: int) -> Panel:
    """``width`` rounds from ``start`` on, or from earlier where the run ends before."""
    start = max(0, min(start, len(timeline) - width))
    state, held = timeline.grid(start, start + width, slots)
    return Panel(label, state, held, start, len(timeline))


def latency_cdf(runs: Sequence[tuple[str, Floats]]) -> bytes:
    """Share of requests finished within a latency, one curve per label and latencies [n] in s."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 4.2))
        axes = figure.subplots()
        for place, (label, seconds) in enumerate(runs):
            n = len(seconds)
            shown = np.unique(np.linspace(0, n - 1, _CURVE_POINTS).round().astype(np.int64))
            ordered, shares = np.sort(seconds)[shown], (shown + 1) / n
            axes.step(ordered, shares, where="post", lw=1.8, label=label, **_line(place))
        axes.set(xscale="log", ylim=(0, 1.01), xlabel="latency (s)", title="Request latency")
        axes.xaxis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_ylabel("share of requests")
        axes.legend(loc="upper left")
        return svg_file(figure)


def latency_bars(runs: Sequence[tuple[str, float, float]]) -> bytes:
    """Median and 99th percentile of latency in s, one pair of bars per label."""
    labels = [label for label, _, _ in runs]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 1.2 + 0.42 * len(runs)))
        panels = figure.subplots(1, 2, sharey=True)
        medians, tails = [p50 for _, p50, _ in runs], [p99 for _, _, p99 in runs]
        for axes, title, values in zip(panels, ("p50", "p99"), (medians, tails), strict=True):
            colours = [COLOURS[place % len(COLOURS)] for place in range(len(runs))]
            bars = axes.barh(range(len(runs)), values, color=colours, height=0.62)
            axes.bar_label(bars, [f"{value:.3g}" for value in values], padding=3, fontsize=9)
            axes.set(title=f"{title} latency (s)", xlim=(0, 1.18 * max(values)))
            axes.grid(axis="y", visible=False)
        panels[0].set_yticks(range(len(runs)), labels)
        panels[0].invert_yaxis()
        return svg_file(figure)


def round_timeline(panels: Sequence[Panel]) -> bytes:
    """What every slot of consecutive rounds holds, one panel per run.

    A few requests are told apart by letters, in their order in the workload.
    """
    colours = ListedColormap([_IDLE, _PROMPT, _DENOISING])
    rows = sum(min(max(p.state.shape[0] / 14, 1.1), 3.2) + 0.62 for p in panels)
    with matplotlib.rc_context({**STYLE, "axes.grid": False}):
        figure = Figure(figsize=(9.2, rows + 0.3))
        grid = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
        for axes, shown in zip(grid, panels, strict=True):
            slots, rounds = shown.state.shape
            extent = (shown.first - 0.5, shown.first + rounds - 0.5, slots + 0.5, 0.5)
            axes.imshow(
                shown.state, cmap=colours, vmin=0, vmax=2, aspect="auto", extent=extent,
                interpolation="nearest",
            )  # fmt: skip
            axes.set_title(_title(shown))
            axes.set_ylabel("slot")
            axes.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
            if shown.held.max() < len(_LETTERS):
                for slot, column in _stretches(shown.held):
                    letter = _LETTERS[shown.held[slot, column]]
                    place = (shown.first + column, slot + 1)
                    axes.annotate(letter, place, ha="center", va="center", color="white")
        grid[-1].set_xlabel("round")
        keys = (("prompt block", _PROMPT), ("denoising", _DENOISING), ("idle", _IDLE))
        figure.legend(
            handles=[Patch(color=colour, label=label) for label, colour in keys],
            loc="outside upper right",
            ncols=len(keys),
        )
        return svg_file(figure)


def _stretches(held: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """Slot and column, [n, 2], where a request begins to hold a slot."""
    before = np.pad(held, ((0, 0), (1, 0)), constant_values=-1)[:, :-1]
    return np.argwhere((held >= 0) & (held != before))


def _title(shown: Panel) -> str:
    filled = shown.state != IDLE
    prompt_only = ((shown.state == PROMPT) == filled).all(axis=0)
    last = shown.first + shown.state.shape[1] - 1
    return (
        f"{shown.label}: rounds {shown.first} to {last} of {shown.total}, "
        f"{filled.sum(axis=0).mean():.1f} of {shown.state.shape[0]} slots filled, "
        f"{prompt_only.mean():.0%} of the rounds prompts only"
    )


def _line(place: int) -> dict[str, Any]:
    style = "-" if place < len(COLOURS) else "--"
    return {"color": COLOURS[place % len(COLOURS)], "linestyle": style}


def svg_file(figure: Figure) -> bytes:
    """The figure as an SVG file, the same for the same data."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", facecolor="white", metadata={"Date": None})
    return buffer.getvalue()
