"""Pictures of measured figures beside the paper's, as SVG files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from dwise_predict.evaluation.results_plots import COLOURS, STYLE, svg_file
from dwise_predict.experiments.values import Key, Value, paper_figures, summarised

Plot = Callable[[Sequence[Value]], bytes]
Line = Mapping[float, float] | Mapping[int, float]
"""y by x."""


def bars(figure: str, title: str, log: bool = False) -> Plot:
    """One bar for each run that has ``figure``, a panel an arrival pattern, the paper's as dots."""

    def plot(values: Sequence[Value]) -> bytes:
        found = {k: v for k, v in summarised(values).items() if k.figure == figure}
        arrivals = list(dict.fromkeys(key.arrival for key in found))
        runs = list(dict.fromkeys(key.run for key in found))
        paper = paper_figures()
        with matplotlib.rc_context(STYLE):
            drawing = Figure(figsize=(8.4, 1.3 + 0.36 * len(runs)))
            panels = drawing.subplots(1, len(arrivals), sharey=True, squeeze=False)[0]
            for axes, arrival in zip(panels, arrivals, strict=True):
                keys = [Key(arrival, run, figure) for run in runs]
                rows = [row for row, key in enumerate(keys) if key in found]
                means = [found[keys[row]].mean for row in rows]
                spreads = [found[keys[row]].spread for row in rows]
                axes.barh(rows, means, height=0.6, color=COLOURS[1], label="here")
                if any(spreads):
                    axes.errorbar(means, rows, xerr=spreads, fmt="none", ecolor="#555555", lw=1.2)
                theirs = [row for row, key in enumerate(keys) if key in paper]
                dots = [paper[keys[row]] for row in theirs]
                if dots:
                    axes.plot(dots, theirs, "D", ms=5, color=COLOURS[2], label="paper")
                axes.set_title(arrival)
                axes.set_xlabel(title)
                if log:
                    axes.set_xscale("log")
                    _plain(axes.xaxis)
                axes.grid(axis="y", visible=False)
            panels[0].set_yticks(range(len(runs)), runs)
            panels[0].invert_yaxis()
            _legend(drawing, panels)
            return svg_file(drawing)

    return plot


def lines(
    panels: Mapping[str, Mapping[str, Line]],
    x: str,
    y: str,
    log_x: bool = False,
    log_y: bool = False,
) -> bytes:
    """Lines by name, in panels by title."""
    with matplotlib.rc_context(STYLE):
        drawing = Figure(figsize=(8.4, 3.6))
        drawn = drawing.subplots(1, len(panels), squeeze=False)[0]
        for axes, (title, members) in zip(drawn, panels.items(), strict=True):
            for place, (name, line) in enumerate(members.items()):
                axes.plot(list(line), list(line.values()), "o-", lw=1.6, ms=4.5, label=name,
                          color=COLOURS[place % len(COLOURS)])  # fmt: skip
            axes.set(title=title, xlabel=x)
            for wanted, axis, name in ((log_x, axes.xaxis, "x"), (log_y, axes.yaxis, "y")):
                if wanted:
                    axes.set(**{f"{name}scale": "log"})
                    _plain(axis)
        drawn[0].set_ylabel(y)
        drawn[0].legend()
        return svg_file(drawing)


def boxes(groups: Mapping[str, Sequence[float]], title: str) -> bytes:
    """Median, quartiles and the 10th and 90th percentile of each group on a log axis."""
    names = sorted(groups, key=lambda name: (-float(np.median(groups[name])), name))
    with matplotlib.rc_context(STYLE):
        drawing = Figure(figsize=(8.4, 1.1 + 0.38 * len(names)))
        axes = drawing.subplots()
        axes.boxplot(
            [list(groups[name]) for name in names],
            orientation="horizontal",
            positions=range(len(names)),
            widths=0.55,
            whis=(10, 90),
            flierprops={"marker": ".", "markersize": 3, "markeredgecolor": "#888888"},
            medianprops={"color": COLOURS[2], "linewidth": 2},
        )
        axes.set_yticks(range(len(names)), [f"{name} ({len(groups[name])})" for name in names])
        axes.grid(axis="y", visible=False)
        axes.set_xscale("log")
        _plain(axes.xaxis)
        axes.set_xlabel(title)
        return svg_file(drawing)


def _legend(drawing: Figure, panels: Sequence[Axes]) -> None:
    named = {
        label: handle
        for axes in panels
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    drawing.legend(list(named.values()), list(named), loc="outside upper right", ncols=len(named))


def _plain(axis: Axis) -> None:
    """Label 1, 3, 10, 30, … as they are."""
    axis.set_major_locator(LogLocator(base=10, subs=(1, 3)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
