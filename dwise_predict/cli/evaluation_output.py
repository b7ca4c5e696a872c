"""What ``dwise evaluate`` prints."""

from __future__ import annotations

import math

from rich.table import Table
from rich.text import Text

from dwise_predict.bundle.metrics import RankMetrics
from dwise_predict.cli.terminal import output_console
from dwise_predict.cli.text import printable
from dwise_predict.evaluate import BundleEvaluation
from dwise_predict.evaluation.drift import Drift, Figure
from dwise_predict.evaluation.facts import UNDEFINED

_ADVICE = {
    "keep": "keep the bundle",
    "recalibrate": "recalibrate: dwise train --profile … --init-from … --calibration-only",
    "refresh": "refresh: dwise train --profile … --init-from …",
    "unclear": "unclear: more requests are needed to tell",
}


def print_evaluation(found: BundleEvaluation) -> None:
    """Print what was evaluated, quality then and now, the watched figures and the verdict."""
    console = output_console()
    drift = found.drift
    for line in (
        f"bundle    {found.bundle}",
        f"profile   {found.profile}: {drift.requests} requests, {drift.aborted} of them aborted, "
        f"{found.unseen.left_out} more left out (trained on)",
        *(f"warning   {sentence}" for sentence in found.compatibility),
        *_doubts(found),
    ):
        console.print(printable(line), soft_wrap=True)
    console.print(_quality(found))
    console.print(_distributions(found))
    console.print(_categories(drift))
    console.print(_watched(drift.figures))
    console.print(f"verdict   {_ADVICE[drift.verdict.advice]}", soft_wrap=True)
    for reason in drift.verdict.reasons:
        console.print(f"          {reason}", soft_wrap=True)


def _doubts(found: BundleEvaluation) -> list[str]:
    lines = []
    if unknown := found.unseen.unknown_profiles:
        lines.append(
            f"warning   {len(unknown)} profiles that the bundle was trained on were not found "
            f"({unknown[0][:12]}…): prompts of theirs may be among these, and figures too good; "
            "name them with --trained-on"
        )
    if found.drift.admission is None:
        lines.append(
            "warning   the profile lacks token_bins, which this bundle's admission predictor "
            "needs: only refined predictions are evaluated"
        )
    return lines


def _quality(found: BundleEvaluation) -> Table:
    table = _table("predictions, in the bundle's own evaluation -> on these requests")
    for name in ("", "Spearman", "within category", "median ratio", "mean abs. error"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    own, drift = found.own, found.drift
    for name, before, after in (
        ("admission", own.admission, drift.admission),
        ("refined, raw", own.refined_raw, drift.refined_raw),
        ("refined", own.refined, drift.refined),
    ):
        if after is not None:
            table.add_row(name, *_pairs(before, after))
    return table


def _distributions(found: BundleEvaluation) -> Table:
    table = _table("predicted distributions, likewise")
    own, now = found.own.survival, found.drift.survival
    names = {
        "c-index": "c_index",
        "integrated Brier": "integrated_brier",
        "D-calibration p": "d_calibration_p",
        "in central 80%": "coverage_80",
    }
    for name in names:
        table.add_column(name, justify="right")
    table.add_row(*(_pair(getattr(own, key), getattr(now, key)) for key in names.values()))
    return table


def _pairs(before: RankMetrics, after: RankMetrics) -> list[str]:
    names = ("spearman", "spearman_within", "median_ratio", "mae")
    return [_pair(getattr(before, name), getattr(after, name)) for name in names]


def _pair(before: float | None, after: float | None) -> str:
    return f"{_number(before)} -> {_number(after)}"


def _number(value: float | None) -> str:
    return UNDEFINED if value is None else f"{value:.3f}"


def _categories(drift: Drift) -> Table:
    table = _table("by category, on these requests")
    for name in (
        "",
        "requests",
        "refined Spearman",
        "median ratio",
        "admission Spearman",
        "median ratio",
    ):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    for name, row in drift.refined.by_category.items():
        cells = [str(row.n), _number(row.spearman), _number(row.median_ratio)]
        if drift.admission is not None:
            first = drift.admission.by_category[name]
            cells += [_number(first.spearman), _number(first.median_ratio)]
        table.add_row(Text(printable(name)), *cells)
    return table


def _watched(figures: tuple[Figure, ...]) -> Table:
    table = _table("watched figures, with 95% intervals of the change")
    for name in ("", "own", "now", "change", "from", "to", "tolerance", ""):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    for figure in figures:
        values = (figure.change, figure.low, figure.high)
        ratio = figure.name.endswith("ratio")
        shown = [f"×{math.exp(v):.2f}" if ratio else f"{v:+.3f}" for v in values]
        tolerance = f"×{math.exp(figure.tolerance):.2f}" if ratio else f"{figure.tolerance:.2f}"
        table.add_row(
            figure.name,
            f"{figure.own:.3f}",
            f"{figure.now:.3f}",
            *shown,
            tolerance,
            figure.status,
        )
    return table


def _table(title: str) -> Table:
    return Table(title=Text(title, style="bold"), title_justify="left", box=None)
