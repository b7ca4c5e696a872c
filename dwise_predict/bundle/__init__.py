"""Bundles: a folder with both predictors, what they are valid for and how good they are.

Names are loaded when first used: neither torch nor LightGBM is imported before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dwise_predict.bundle.bundle import PredictorBundle
    from dwise_predict.bundle.compatibility import Difference, Verdict, compare_fingerprints
    from dwise_predict.bundle.metrics import Metrics
    from dwise_predict.bundle.schema import BundleConfig, Provenance

__all__ = [
    "BundleConfig",
    "Difference",
    "Metrics",
    "PredictorBundle",
    "Provenance",
    "Verdict",
    "compare_fingerprints",
]

_MODULES = {
    "BundleConfig": "schema",
    "Difference": "compatibility",
    "Metrics": "metrics",
    "PredictorBundle": "bundle",
    "Provenance": "schema",
    "Verdict": "compatibility",
    "compare_fingerprints": "compatibility",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
