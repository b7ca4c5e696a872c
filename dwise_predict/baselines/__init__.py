"""Learned baselines of the paper: SSJF, S³, LTR and TRAIL, trained on the profile DWISE trains on.

All rank requests by output tokens, three of them from the prompt alone. Each has a module of its
own that names its paper and says what differs. Encoders need the extra ``baselines``.
"""

from dwise_predict.baselines.collection import Baselines, LearnedLengths
from dwise_predict.baselines.rounds import RecordedRounds, read_rounds, record_rounds
from dwise_predict.baselines.settings import (
    METHODS,
    MINILM,
    OFFLINE,
    PAPER,
    BaselineSettings,
    Method,
)
from dwise_predict.baselines.training import (
    BASELINES_FOLDER,
    ROUNDS_FOLDER,
    train_baselines,
    train_run_baselines,
)

__all__ = [
    "BASELINES_FOLDER",
    "METHODS",
    "MINILM",
    "OFFLINE",
    "PAPER",
    "ROUNDS_FOLDER",
    "BaselineSettings",
    "Baselines",
    "LearnedLengths",
    "Method",
    "RecordedRounds",
    "read_rounds",
    "record_rounds",
    "train_baselines",
    "train_run_baselines",
]
