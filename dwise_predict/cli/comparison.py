"""What ``dwise diff`` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dwise_predict.bundle import PredictorBundle
from dwise_predict.bundle.schema import ADMISSION_FILE, REFINER_FILE
from dwise_predict.cli.summary import quality_table
from dwise_predict.cli.terminal import output_console
from dwise_predict.cli.text import printable


def print_comparison(a: PredictorBundle, b: PredictorBundle) -> bool:
    """Print how bundle ``b`` differs from ``a``; returns whether they predict the same."""
    console = output_console()
    same = _predict_the_same(a, b)
    lines = [
        f"A  {a.source}",
        f"B  {b.source}",
        f"predictors: {'the same' if same else 'different'}",
        f"A where B is valid: {a.check(b.config.fingerprint)}",
        *_changes("", _origin(a), _origin(b)),
    ]
    for line in lines:
        console.print(printable(line), soft_wrap=True)
    if a.metrics == b.metrics:
        console.print("metrics: the same")
    else:
        console.print(quality_table(a.metrics, "A: "))
        console.print(quality_table(b.metrics, "B: "))
    return same


def _predict_the_same(a: PredictorBundle, b: PredictorBundle) -> bool:
    files = (ADMISSION_FILE, REFINER_FILE)
    return a.config.calibration == b.config.calibration and all(
        a.config.files[name] == b.config.files[name] for name in files
    )


def _origin(bundle: PredictorBundle) -> dict[str, Any]:
    """What a bundle was made from, and by which version."""
    provenance = bundle.provenance
    return {
        "format_version": bundle.config.format_version,
        "library_version": bundle.config.library_version,
        "packages": provenance.packages,
        "profile": provenance.profile_repo,
        "profile_sha256": provenance.profile_sha256,
        "seed": bundle.config.seed,
        "settings": bundle.config.settings.model_dump(),
        "workload": provenance.workload,
        "workload_sha256": provenance.workload_sha256,
    }


def _changes(section: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """One line per key that differs, as ``key: A -> B``."""
    lines = []
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        name = f"{section}.{key}" if section else key
        if isinstance(old, dict) and isinstance(new, dict):
            lines += _changes(name, old, new)
        elif old != new:
            lines.append(f"{name}: {old} -> {new}")
    return lines
