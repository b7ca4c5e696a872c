"""What can be wrong with the data that predictors are trained on."""

from __future__ import annotations

from dwise_predict.errors import DwiseError


class TrainingError(DwiseError):
    """A profile is sound but cannot train predictors: too few requests, prompts or events."""
