"""Rounds predicted when a request arrives: LightGBM on prompt features (paper Section 4.2).

The regression target is log(rounds), so the prediction ``exp(.)`` is a geometric mean: on the
right-skewed rounds of a workload that is close to the *median*, not to the mean (the paper reports
a median predicted/actual ratio of 1.03). Refined estimates are calibrated to the same scale.
"""

from __future__ import annotations

import ctypes
import math
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

import lightgbm
import numpy as np
from lightgbm.libpath import _LIB
from numpy.typing import ArrayLike, NDArray

from dwise_predict.predictors.errors import TrainingError
from dwise_predict.predictors.features import FEATURES, feature_matrix
from dwise_predict.predictors.trees import END, check_tree_text
from dwise_predict.recipe import AdmissionSettings

_FLOAT64 = 1  # C_API_DTYPE_FLOAT64
_NORMAL = 0  # C_API_PREDICT_NORMAL


def fit_admission(
    features: NDArray[np.float64],
    rounds: NDArray[np.int64],
    settings: AdmissionSettings,
    seed: int,
) -> AdmissionPredictor:
    """Train on finished requests; the same data and seed give the same bytes.

    Args:
        features: ``[n, 3]``, see :func:`~dwise_predict.predictors.features.feature_matrix`.
        rounds: total denoising rounds, ``[n]``, at least 1.
        settings: size of the model.
        seed: seed of LightGBM's own choices.

    Raises:
        TrainingError: there is no request.
    """
    if len(rounds) == 0:
        raise TrainingError("admission predictor: no finished training request")
    parameters = {
        "objective": "regression",
        "num_leaves": settings.leaves,
        "learning_rate": settings.learning_rate,
        "min_data_in_leaf": settings.min_leaf,
        "deterministic": True,
        "force_row_wise": True,
        # One thread: the sums, and so the trees, do not depend on how many cores there are.
        "num_threads": 1,
        "seed": seed,
        "verbosity": -1,
    }
    data = lightgbm.Dataset(features, np.log(rounds), feature_name=list(FEATURES))
    text = lightgbm.train(parameters, data, settings.trees).model_to_string()
    # What follows the trees (importances, every default parameter) is not needed to predict.
    return AdmissionPredictor(text[: text.index(END)] + END)


class AdmissionPredictor:
    """Predicts total denoising rounds from prompt features.

    One request goes through LightGBM's single-row fast path, whose setup is done once here; many
    go through the ordinary batch path. Objects may be shared between threads: single-row calls
    share one pair of buffers behind a lock, held for the microseconds of a call. Not picklable;
    build another one from :attr:`text` instead.

    Args:
        text: LightGBM model text up to ``end of trees``. Check text of unknown origin with
            :func:`~dwise_predict.predictors.trees.check_tree_text` first.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._booster: lightgbm.Booster | None = lightgbm.Booster(model_str=text)
        self._row = (ctypes.c_double * len(FEATURES))()
        self._result = ctypes.c_double()
        self._length = ctypes.c_int64()
        self._lock = threading.Lock()
        config = _init_fast_config(self._booster)
        self._config: ctypes.c_void_p | None = config
        self._predict_row = _single_row_function(config, self._row, self._length, self._result)

    def rounds(self, *, words: float, newlines: float, prompt_tokens: float) -> float:
        """Predict the rounds of one request, at least 1 (median scale), in microseconds."""
        row = self._row
        with self._lock:
            row[0] = words
            row[1] = newlines
            row[2] = prompt_tokens
            if self._predict_row() != 0:
                raise RuntimeError(f"LightGBM: {_last_error()}")
            log_rounds = self._result.value
        return max(math.exp(log_rounds), 1.0)

    def rounds_batch(
        self, words: ArrayLike, newlines: ArrayLike, prompt_tokens: ArrayLike
    ) -> NDArray[np.float64]:
        """Predict the rounds of ``n`` requests; what ``n`` calls of :meth:`rounds` give."""
        if self._booster is None:
            raise ValueError("the admission predictor is closed")
        features = feature_matrix(words, newlines, prompt_tokens)
        if len(features) == 0:
            return np.empty(0)
        log_rounds = np.asarray(self._booster.predict(features, num_threads=1), dtype=np.float64)
        return np.maximum(np.exp(log_rounds), 1.0)

    def size(self) -> tuple[int, int]:
        """Return the number of trees and the most leaves of any tree."""
        checked = check_tree_text(self.text, max_trees=10**6, max_leaves=10**6)
        return checked.trees, checked.leaves

    def close(self) -> None:
        """Free LightGBM's memory now; later predictions raise ``ValueError``."""
        with self._lock:
            config, self._config = self._config, None
            self._predict_row = _closed
            self._booster = None
        if config is not None:
            _function("LGBM_FastConfigFree", ctypes.c_void_p)(config)

    def __enter__(self) -> AdmissionPredictor:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self, _ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # A constructor that failed early leaves nothing to free, and when the interpreter ends,
        # ctypes may be gone before this object; the system then frees everything.
        if not _ending() and getattr(self, "_config", None) is not None:
            self.close()


def _closed() -> int:
    raise ValueError("the admission predictor is closed")


def _function(name: str, *argument_types: Any) -> Any:
    """Return a C function of LightGBM's library, with types of its own.

    Indexing (unlike attribute access) gives a fresh function object, so that the declared types
    do not change the one that the lightgbm package uses.
    """
    function = _LIB[name]
    function.argtypes = argument_types
    function.restype = ctypes.c_int
    return function


def _last_error() -> str:
    function = _LIB["LGBM_GetLastError"]
    function.restype = ctypes.c_char_p
    return str(function().decode(errors="replace"))


def _init_fast_config(booster: lightgbm.Booster) -> ctypes.c_void_p:
    config = ctypes.c_void_p()
    init = _function(
        "LGBM_BoosterPredictForMatSingleRowFastInit",
        ctypes.c_void_p,  # booster
        ctypes.c_int,  # kind of prediction
        ctypes.c_int,  # first iteration
        ctypes.c_int,  # iterations; 0: all
        ctypes.c_int,  # type of the row's numbers
        ctypes.c_int32,  # numbers in the row
        ctypes.c_char_p,  # parameters
        ctypes.c_void_p,  # out: configuration
    )
    status = init(
        booster._handle,
        _NORMAL,
        0,
        0,
        _FLOAT64,
        len(FEATURES),
        b"num_threads=1",
        ctypes.byref(config),
    )
    if status != 0:
        raise RuntimeError(f"LightGBM: {_last_error()}")
    return config


def _single_row_function(
    config: ctypes.c_void_p,
    row: ctypes.Array[ctypes.c_double],
    length: ctypes.c_int64,
    result: ctypes.c_double,
) -> Callable[[], int]:
    """Bind the buffers once: converting arguments costs more than the prediction itself."""
    function = _function("LGBM_BoosterPredictForMatSingleRowFast", *[ctypes.c_void_p] * 4)
    arguments = (
        config.value,
        ctypes.addressof(row),
        ctypes.addressof(length),
        ctypes.addressof(result),
    )

    def predict() -> int:
        return function(*arguments)  # type: ignore[no-any-return]

    return predict
