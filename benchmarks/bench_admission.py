"""Admission latency: the single-row fast path against ``Booster.predict``, in the same run.

    python benchmarks/bench_admission.py

Prints microseconds per request and ratios. Ratios are what to compare between machines.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import lightgbm
import numpy as np

from dwise_predict.predictors.admission import fit_admission
from dwise_predict.recipe import AdmissionSettings

REPEATS = 7


def main() -> None:
    """Train a model of the paper's size on random rounds and time one request at a time."""
    rng = np.random.default_rng(0)
    features = np.column_stack(
        [rng.integers(1, 300, 2048), rng.integers(0, 20, 2048), rng.integers(5, 900, 2048)]
    ).astype(np.float64)
    rounds = np.maximum(2, np.rint(np.exp(rng.normal(3.5, 1, 2048)))).astype(np.int64)
    predictor = fit_admission(features, rounds, AdmissionSettings(), seed=0)
    booster = lightgbm.Booster(model_str=predictor.text)
    rows = [features[i : i + 1] for i in range(len(features))]
    fields = features.tolist()

    def fast(i: int) -> object:
        words, newlines, tokens = fields[i % len(fields)]
        return predictor.rounds(words=words, newlines=newlines, prompt_tokens=tokens)

    def one_thread(i: int) -> object:
        return booster.predict(rows[i % len(rows)], num_threads=1)

    def default_threads(i: int) -> object:
        return booster.predict(rows[i % len(rows)])

    fast_us = microseconds(fast, 20_000)
    for name, spent in (
        ("fast single row", fast_us),
        ("Booster.predict, num_threads=1", microseconds(one_thread, 500)),
        ("Booster.predict, default threads", microseconds(default_threads, 100)),
    ):
        print(f"{name:34s} {spent:9.2f} us   {spent / fast_us:8.1f} times the fast path")


def microseconds(call: Callable[[int], object], calls: int) -> float:
    """Best of some repeats of the mean time of a call."""
    best = float("inf")
    for _ in range(REPEATS):
        start = time.perf_counter()
        for i in range(calls):
            call(i)
        best = min(best, time.perf_counter() - start)
    return best / calls * 1e6


if __name__ == "__main__":
    main()
