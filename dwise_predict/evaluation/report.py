"""One self-contained HTML page about a run: plots inline, no scripts, nothing from elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from dwise_predict.bundle import Metrics, PredictorBundle
from dwise_predict.bundle.metrics import RankMetrics, Transfer
from dwise_predict.errors import ReportError
from dwise_predict.evaluation import plots
from dwise_predict.evaluation.changes import Refresh, read_refresh
from dwise_predict.evaluation.facts import UNDEFINED, fingerprint_facts
from dwise_predict.evaluation.outcomes import Outcomes, outcomes
from dwise_predict.evaluation.stability import Stability, read_stability, summary_rows
from dwise_predict.files import write_text
from dwise_predict.profile import Profile, read_profile
from dwise_predict.run_folder import RunFolder
from dwise_predict.tables import evaluation_rows, read_table

_SURVIVAL_PANELS = 6
_IDENTITY = ("request_id", "category", "split", "rounds")
_PREDICTED = ("admission", "refined_raw", "refined")


def write_report(folder: RunFolder) -> Path:
    """Write ``report.html`` of a finished run and return its path.

    The same run folder gives the same bytes. Raises ReportError when the run is not finished or
    its predictions are damaged, and ProfileError or BundleError when other files are.
    """
    check_finished(folder)
    profile = read_profile(folder.profile)
    bundle = PredictorBundle.load(folder.bundle)
    predictions = evaluation_rows(_read_predictions(folder.predictions, profile))
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    template = environment.get_template("report.html.jinja")
    context = _context(
        profile,
        bundle,
        predictions,
        read_stability(folder.stability),
        read_refresh(folder.refresh),
    )
    write_text(folder.report, template.render(context))
    return folder.report


def check_finished(folder: RunFolder) -> None:
    """Raise ReportError when a product of the run is missing."""
    if not (folder.profiled and folder.trained):
        raise ReportError(
            f"{folder.path} is no finished run: it needs profile/, bundle/ and "
            "predictions.parquet; finish it with: dwise train … --resume"
        )


def _read_predictions(path: Path, profile: Profile) -> pa.Table:
    """The predictions, checked to be one row of finite numbers per request of the profile."""
    damaged = ReportError(f"{path} is damaged; delete it and run again with --resume")
    try:
        table = read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise damaged from error
    if table.column_names != [*_IDENTITY, *_PREDICTED]:
        raise damaged
    if not all(table[name].equals(profile.requests[name]) for name in _IDENTITY):
        raise damaged
    for name in _PREDICTED:
        column = table[name]
        if column.type != pa.float64() or column.null_count or not np.isfinite(column).all():
            raise damaged
    return table


def _context(
    profile: Profile,
    bundle: PredictorBundle,
    predictions: pa.Table,
    stability: Stability | None,
    refresh: Refresh | None,
) -> dict[str, Any]:
    """Everything the template names."""
    held_out = evaluation_rows(profile.requests)
    served = outcomes(held_out)
    metrics = bundle.metrics
    slots = profile.run.engine.slots
    true = predictions["rounds"].to_numpy().astype(np.float64)
    by_kind = {name: predictions[name].to_numpy() for name in _PREDICTED}
    return {
        "stability": [] if stability is None else _stability_cells(stability),
        "refresh": refresh,
        "title": profile.run.fingerprint.model,
        "subtitle": _subtitle(profile),
        "tiles": _tiles(served, metrics),
        "outcomes": served,
        "plots": {
            name: Markup(svg)
            for name, svg in {
                "rounds": plots.rounds_by_category(_rounds_of(held_out)),
                "scatter": plots.predicted_against_true(
                    true,
                    [
                        (
                            _titled("Admission", metrics.admission),
                            plots.ADMISSION,
                            by_kind["admission"],
                        ),
                        (_titled("Refined", metrics.refined), plots.REFINED, by_kind["refined"]),
                    ],
                ),
                "calibration": plots.calibration(
                    true,
                    [
                        ("admission", plots.ADMISSION, by_kind["admission"]),
                        ("refined, raw", plots.RAW, by_kind["refined_raw"]),
                        ("refined, calibrated", plots.REFINED, by_kind["refined"]),
                    ],
                ),
                "survival": plots.survival_curves(_curves(profile, bundle, predictions)),
            }.items()
        },
        "ratio_before": metrics.refined_raw.median_ratio,
        "ratio_after": metrics.refined.median_ratio,
        "slots": slots,
        "composition": _composition(profile.rounds, slots),
        "transfers": [
            {"category": name, "requests": row.n_eval, "cells": _cells(row.admission, row.refined)}
            for name, row in metrics.held_out.items()
        ],
        "skipped": metrics.held_out_skipped,
        "facts": _facts(profile, bundle),
        "version": bundle.config.library_version,
    }


def _subtitle(profile: Profile) -> str:
    fingerprint = profile.run.fingerprint
    parameters = ", ".join(f"{k} {v:g}" for k, v in fingerprint.algorithm_parameters.items())
    train = pc.sum(pc.equal(profile.requests["split"], "train")).as_py()
    return (
        f"{fingerprint.architecture} on the {fingerprint.engine} engine · "
        f"{fingerprint.algorithm} ({parameters}) · {fingerprint.block_size}-token blocks · "
        f"budget {fingerprint.budget_tokens} tokens · {train:,} training and "
        f"{profile.requests.num_rows - train:,} evaluation requests"
    )


def _tiles(served: Outcomes, metrics: Metrics) -> list[dict[str, str]]:
    """The figures at the top: name, value, note."""
    admission, refined = metrics.admission, metrics.refined
    tiles = [
        (
            "Denoising rounds, median",
            f"{served.rounds_p50:g}",
            f"p10 {served.rounds_p10:g} · p90 {served.rounds_p90:g} · max {served.rounds_max}",
        ),
        ("Tokens per round", f"{served.tokens_per_round:.2f}", "committed, over all requests"),
        ("Ended by EOS", f"{served.ended_by_eos:.0%}", f"of {served.requests} requests"),
        (
            "Rank correlation",
            _number(refined.spearman),
            f"refined; {_number(admission.spearman)} at admission",
        ),
        (
            "Within category",
            _number(refined.spearman_within),
            f"refined; {_number(admission.spearman_within)} at admission",
        ),
        (
            "Median predicted / true",
            _number(refined.median_ratio),
            f"calibrated; {_number(metrics.refined_raw.median_ratio)} raw",
        ),
    ]
    return [{"name": name, "value": value, "note": note} for name, value, note in tiles]


def _titled(name: str, quality: RankMetrics) -> str:
    return f"{name}: Spearman {_number(quality.spearman)}"


def _rounds_of(requests: pa.Table) -> dict[str, npt.NDArray[np.int64]]:
    categories = requests["category"].to_numpy()
    rounds = requests["rounds"].to_numpy()
    return {str(name): rounds[categories == name] for name in np.unique(categories)}


def _curves(profile: Profile, bundle: PredictorBundle, predictions: pa.Table) -> list[plots.Curve]:
    """Evaluation requests evenly spaced by their true rounds, shortest and longest included."""
    true = predictions["rounds"].to_numpy()
    order = np.argsort(true, kind="stable")
    ranks = np.linspace(0, len(order) - 1, min(_SURVIVAL_PANELS, len(order))).round().astype(int)
    chosen = order[ranks]
    row_of = {name: row for row, name in enumerate(profile.requests["request_id"].to_pylist())}
    ids = predictions["request_id"].to_numpy()[chosen]
    rows = np.array([row_of[name] for name in ids])
    remaining = bundle.refiner(
        profile.hidden[rows],
        profile.requests["prompt_tokens"].to_numpy()[rows],
        profile.requests["budget_tokens"].to_numpy()[rows],
    )
    # Column k is P(remaining > k); with the first round done, that is P(total > k + 1).
    later = remaining.survival().cpu().numpy()
    categories, means = predictions["category"].to_numpy(), predictions["refined"].to_numpy()
    return [
        plots.Curve(
            label=f"{categories[i]} · {name}",
            survival=np.concatenate([[1.0], survival]),
            predicted=float(means[i]),
            true=int(true[i]),
        )
        for i, name, survival in zip(chosen, ids, later, strict=True)
    ]


def _composition(rounds: pa.Table, slots: int) -> dict[str, Any] | None:
    """Shares of slots by time and in a plot, and the share of rounds that only prefill.

    None where no rounds were recorded.
    """
    wall = rounds["wall_ms"].to_numpy()
    if not wall.sum() > 0:
        return None
    filled, prefill = rounds["slots"].to_numpy(), rounds["prefill_slots"].to_numpy()
    capacity = wall.sum() * slots
    return {
        "prefill": float((wall * prefill).sum() / capacity),
        "denoise": float((wall * (filled - prefill)).sum() / capacity),
        "idle": float((wall * (slots - filled)).sum() / capacity),
        "prefill_only": float((filled == prefill).mean()),
        "plot": Markup(
            plots.round_composition(wall, prefill.astype(np.float64), filled - prefill, slots)
        ),
    }


def _cells(admission: Transfer, refined: Transfer) -> list[str]:
    """Within the category and over all requests, each in training and held out."""
    return [
        _number(value)
        for row in (admission, refined)
        for value in (row.in_training, row.held_out, row.all_in_training, row.all_held_out)
    ]


def _stability_cells(stability: Stability) -> list[list[str]]:
    return [
        [
            row.compared,
            row.category,
            str(row.requests),
            UNDEFINED if row.identical is None else f"{row.identical:.1%}",
            UNDEFINED if row.spearman is None else f"{row.spearman:.3f}",
            UNDEFINED if row.mean_difference is None else f"{row.mean_difference:.2f}",
        ]
        for row in summary_rows(stability)
    ]


def _facts(profile: Profile, bundle: PredictorBundle) -> dict[str, str]:
    run, provenance = profile.run, bundle.provenance
    return fingerprint_facts(run.fingerprint) | {
        "engine settings": ", ".join(f"{name} {value}" for name, value in run.engine),
        "seed": str(run.seed),
        "workload": f"{run.workload.name}, sha256 {run.workload.sha256}",
        "served": f"{run.counts.requests:,} requests in {run.counts.rounds:,} rounds",
        "admission features": ", ".join(bundle.config.admission.features),
        "horizon": f"{bundle.refiner.horizon} rounds",
        "command": provenance.command,
        "git revision": provenance.git_revision or UNDEFINED,
        "packages": ", ".join(f"{k} {v}" for k, v in sorted(provenance.packages.items())),
    }


def _number(value: float | None) -> str:
    """Two decimals with a real minus sign; a dash for what is undefined."""
    if value is None or np.isnan(value):
        return UNDEFINED
    return f"{value:.2f}".replace("-", "−")
