"""Predictors of denoising work for serving block-diffusion language models.

Public names are loaded when first used, so that ``import dwise_predict`` is quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dwise_predict.bundle import PredictorBundle
    from dwise_predict.errors import DwiseError
    from dwise_predict.fingerprint import Fingerprint
    from dwise_predict.predictors.distribution import RemainingRounds
    from dwise_predict.profile import Profile, read_profile
    from dwise_predict.training import Evaluation, train_bundle

__all__ = [
    "DwiseError",
    "Evaluation",
    "Fingerprint",
    "PredictorBundle",
    "Profile",
    "RemainingRounds",
    "read_profile",
    "train_bundle",
]

_MODULES = {
    "DwiseError": "errors",
    "Evaluation": "training",
    "Fingerprint": "fingerprint",
    "PredictorBundle": "bundle",
    "Profile": "profile",
    "RemainingRounds": "predictors.distribution",
    "read_profile": "profile",
    "train_bundle": "training",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
