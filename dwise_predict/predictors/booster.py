"""LightGBM itself as a predictor, for ensembles that are too large for a table.

One row goes through LightGBM's single-row fast path, whose setup is done once here; many rows go
through the ordinary batch path.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from typing import Any

import lightgbm
import numpy as np
from lightgbm.libpath import _LIB
from numpy.typing import NDArray

_FLOAT64 = 1  # C_API_DTYPE_FLOAT64
_NORMAL = 0  # C_API_PREDICT_NORMAL


class BoosterPredictor:
    """Output of a LightGBM model, for one row or many.

    Single-row calls share one pair of buffers behind a lock, held for the microseconds of a call.

    Args:
        text: LightGBM model text up to ``end of trees``, checked.
    """

    def __init__(self, text: str) -> None:
        self._booster = lightgbm.Booster(model_str=text)
        self._row = (ctypes.c_double * self._booster.num_feature())()
        self._counts = np.ctypeslib.as_array(self._row)[3:]
        self._result = ctypes.c_double()
        self._length = ctypes.c_int64()
        self._lock = threading.Lock()
        self._config: ctypes.c_void_p | None = _init_fast_config(self._booster)
        self._predict_row = _single_row_function(
            self._config, self._row, self._length, self._result
        )

    def one(
        self,
        words: float,
        newlines: float,
        prompt_tokens: float,
        counts: NDArray[np.integer] | None = None,
    ) -> float:
        """Return the output for one row; ``counts`` are the columns after the first three."""
        row = self._row
        with self._lock:
            row[0] = words
            row[1] = newlines
            row[2] = prompt_tokens
            if counts is not None:
                self._counts[:] = counts
            if self._predict_row() != 0:
                raise RuntimeError(f"LightGBM: {_last_error()}")
            return self._result.value

    def many(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the output for each row of ``[n, columns]``, ``[n]``."""
        return np.asarray(self._booster.predict(features, num_threads=1), dtype=np.float64)

    def __del__(self, _ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # A constructor that failed early leaves nothing to free, and when the interpreter ends,
        # ctypes may be gone before this object; the system then frees everything.
        config = getattr(self, "_config", None)
        if config is not None and not _ending():
            _function("LGBM_FastConfigFree", ctypes.c_void_p)(config)


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
    columns = booster.num_feature()
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
        columns,
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
