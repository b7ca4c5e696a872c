"""What ``dwise train`` and ``dwise inspect`` print: short tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from dwise_predict.bundle import Metrics, PredictorBundle
from dwise_predict.bundle.metrics import RankMetrics
from dwise_predict.cli.terminal import output_console
from dwise_predict.cli.text import printable
from dwise_predict.evaluation.facts import UNDEFINED, fingerprint_facts
from dwise_predict.evaluation.stability import ALL, read_stability, summary_rows

if TYPE_CHECKING:
    from dwise_predict.evaluation.changes import Refresh
    from dwise_predict.evaluation.outcomes import Outcomes
    from dwise_predict.evaluation.stability import Stability
    from dwise_predict.pipeline import RunResult
    from dwise_predict.run_folder import RunFolder


_MAX_LABEL = 40
"""A long category wraps instead of pushing the values off the screen."""


def print_summary(result: RunResult) -> None:
    """Print what was served, how good the predictors are, and where the files lie."""
    console = output_console()
    served = result.outcomes
    console.print(_facts(f"served: {served.requests} evaluation requests", _served(served)))
    if result.stability is not None:
        console.print(stability_table(result.stability))
    console.print(quality_table(result.metrics))
    if result.refresh is not None:
        console.print(refresh_table(result.refresh))
    console.print(f"bundle  {result.folder.bundle}", soft_wrap=True)
    console.print(f"report  {result.folder.report}", soft_wrap=True)


def print_stability(folder: RunFolder) -> None:
    """Print how stable the labels of a run are, where that was measured."""
    stability = read_stability(folder.stability)
    if stability is not None:
        output_console().print(stability_table(stability))


def print_bundle(bundle: PredictorBundle) -> None:
    """Print what a bundle is valid for and how good it is."""
    console = output_console()
    config = bundle.config
    facts = fingerprint_facts(config.fingerprint)
    facts["admission features"] = ", ".join(config.admission.features)
    console.print(_facts(f"bundle {bundle.source}: every file as it was written", facts))
    console.print(quality_table(bundle.metrics))


def _served(served: Outcomes) -> dict[str, str]:
    return {
        "denoising rounds": f"p10 {served.rounds_p10:g}   p50 {served.rounds_p50:g}   "
        f"p90 {served.rounds_p90:g}   max {served.rounds_max}",
        "tokens per round": f"{served.tokens_per_round:.2f}",
        "ended by EOS": f"{served.ended_by_eos:.1%}",
    } | {
        f"right answers, {category}": f"{answers.right}/{answers.checked} ({answers.share:.0%})"
        for category, answers in served.answers.items()
    }


def quality_table(metrics: Metrics, title: str = "") -> Table:
    """How good both predictors are; ``title`` comes before the table's own."""
    table = _table(
        f"{title}predicted rounds: {metrics.n_eval} requests with unseen prompts", header=True
    )
    for name in ("", "Spearman", "within category", "median ratio", "mean abs. error"):
        table.add_column(name, justify="right" if name else "left")
    for name, quality in (
        ("admission", metrics.admission),
        ("refined, raw", metrics.refined_raw),
        ("refined", metrics.refined),
    ):
        table.add_row(name, *_cells(quality))
    return table


def stability_table(stability: Stability) -> Table:
    """How far rounds agree between servings of the same requests."""
    table = _table("rounds of the same requests in several servings", header=True)
    names = ("", "category", "pairs", "requests", "identical", "Spearman", "mean diff.")
    for name in names:
        left = name in ("", "category")
        table.add_column(name, justify="left" if left else "right", no_wrap=left)
    for row in summary_rows(stability):
        table.add_row(
            Text(row.compared if row.category == ALL else ""),
            Text(printable(row.category)),
            str(row.pairs),
            str(row.requests),
            UNDEFINED if row.identical is None else f"{row.identical:.1%}",
            UNDEFINED if row.spearman is None else f"{row.spearman:.3f}",
            UNDEFINED if row.mean_difference is None else f"{row.mean_difference:.2f}",
        )
    return table


def refresh_table(refresh: Refresh) -> Table:
    """What refreshing changed, on the same requests."""
    what = "calibration of" if refresh.parent.refresh == "calibration" else "refreshed from"
    table = _table(f"{what} {refresh.parent.source} in {refresh.seconds:.1f} s", header=True)
    for name in ("", "before", "after", "better by", "from", "to"):
        table.add_column(name, justify="right" if name else "left", no_wrap=not name)
    for change in refresh.changes:
        table.add_row(
            change.figure,
            *(f"{value:.3f}" for value in (change.before, change.after)),
            *(f"{value:+.3f}" for value in (change.gain, change.low, change.high)),
        )
    if refresh.unseen.unknown_profiles:
        table.caption = (
            f"{len(refresh.unseen.unknown_profiles)} profiles that the bundle was trained on were "
            "not found: figures before and after may be too good (--trained-on)"
        )
    return table


def _cells(quality: RankMetrics) -> list[str]:
    values = (quality.spearman, quality.spearman_within, quality.median_ratio, quality.mae)
    return [UNDEFINED if value is None else f"{value:.3f}" for value in values]


def _facts(title: str, facts: dict[str, str]) -> Table:
    table = _table(title, header=False)
    table.add_column(overflow="fold", max_width=_MAX_LABEL)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        # Text, because categories and paths may hold what looks like markup.
        table.add_row(Text(printable(name)), Text(printable(value)))
    return table


def _table(title: str, header: bool) -> Table:
    return Table(
        title=Text(printable(title), style="bold"),
        title_justify="left",
        show_header=header,
        box=None,
    )
