"""Admission latency and throughput against plain ``Booster.predict``, in the same run.

    python benchmarks/bench_admission.py

*Single* is one request end to end, from its features (with ``extended``, a list of its token ids)
to rounds; plain LightGBM gets a row of an array, predicts it and takes the exponential. *Batch* is
many requests at once. The models have the paper's size; that of the features ``sizes`` is trained
on random rounds, that of ``extended`` on rounds that some tokens tell. Prints microseconds per
request and ratios. Ratios are what to compare between machines.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import lightgbm
import numpy as np

from dwise_predict.predictors.admission import AdmissionPredictor, fit_admission
from dwise_predict.predictors.features import feature_matrix, token_counts
from dwise_predict.recipe import AdmissionSettings

REPEATS = 7


def main() -> None:
    """Train, check that all ways agree, and time them."""
    rng = np.random.default_rng(0)
    features = np.column_stack(
        [rng.integers(1, 300, 2048), rng.integers(0, 20, 2048), rng.integers(5, 900, 2048)]
    ).astype(np.float64)
    rounds = np.maximum(2, np.rint(np.exp(rng.normal(3.5, 1, 2048)))).astype(np.int64)
    trained = fit_admission(features, rounds, AdmissionSettings(), seed=0)
    booster = lightgbm.Booster(model_str=trained.text)
    building = microseconds(lambda _: AdmissionPredictor(trained.text), 3)
    print(f"predictor from its text, once: {building / 1000:.1f} ms")
    single(trained, booster, features.tolist())
    for n in (16, 128, 2048):
        batch(trained, booster, features[:n])
    extended(features)


def extended(sizes: np.ndarray) -> None:
    """Token counts beside the three sizes, for prompts of several lengths."""
    rng = np.random.default_rng(1)
    prompts = rng.integers(150, size=(len(sizes), 120)).tolist()
    matrix = feature_matrix(*sizes.T, prompts)
    rounds = np.maximum(1, matrix[:, 3:23].sum(axis=1)).astype(np.int64)
    settings = AdmissionSettings(features="extended")
    predictor = fit_admission(matrix, rounds, settings, seed=0)
    booster = lightgbm.Booster(model_str=predictor.text)
    building = microseconds(lambda _: AdmissionPredictor(predictor.text, features="extended"), 3)
    print(f"extended predictor from its text, once: {building / 1000:.1f} ms")
    for length in (64, 512, 1024, 10_000):
        ids = rng.integers(150_000, size=length).tolist()

        def ours(_: int, ids: list[int] = ids) -> float:
            return predictor.rounds(words=40, newlines=3, prompt_tokens=len(ids), token_ids=ids)

        def plain(_: int, ids: list[int] = ids) -> float:
            row = feature_matrix([40], [3], [len(ids)], [ids])
            return math.exp(booster.predict(row, num_threads=1)[0])

        assert math.isclose(ours(0), plain(0), rel_tol=1e-12)
        spent, other = microseconds(ours, 2_000), microseconds(plain, 200)
        hashing = microseconds(lambda _, ids=ids: token_counts(ids), 2_000)
        print(
            f"extended, {length:6d} tokens: ours {spent:6.2f} us, counting alone {hashing:6.2f}; "
            f"Booster.predict {other:7.2f} us   {other / spent:6.1f} times ours"
        )
    spent = microseconds(lambda _: predictor.rounds_batch(*sizes.T, prompts), 3) / len(sizes)
    print(f"extended, batch of {len(sizes)} prompts of 120 tokens: {spent:.2f} us a request")


def single(
    predictor: AdmissionPredictor, booster: lightgbm.Booster, rows: list[list[float]]
) -> None:
    """One request at a time."""

    def ours(i: int) -> float:
        words, newlines, tokens = rows[i % len(rows)]
        return predictor.rounds(words=words, newlines=newlines, prompt_tokens=tokens)

    def plain(i: int, threads: int = 1) -> float:
        row = np.array([rows[i % len(rows)]])
        return math.exp(booster.predict(row, num_threads=threads)[0])

    assert all(math.isclose(ours(i), plain(i), rel_tol=1e-12) for i in range(200))
    spent = microseconds(ours, 20_000)
    for name, other in (
        ("single: AdmissionPredictor.rounds", spent),
        ("single: Booster.predict, num_threads=1", microseconds(plain, 500)),
        ("single: Booster.predict, default threads", microseconds(lambda i: plain(i, 0), 100)),
    ):
        print(f"{name:42s} {other:9.2f} us   {other / spent:8.1f} times ours")


def batch(predictor: AdmissionPredictor, booster: lightgbm.Booster, rows: np.ndarray) -> None:
    """Many requests in one call."""
    columns = rows.T.copy()
    spent = microseconds(lambda _: predictor.rounds_batch(*columns), 200) / len(rows)
    plain = microseconds(lambda _: np.exp(booster.predict(rows, num_threads=1)), 50) / len(rows)
    print(
        f"batch of {len(rows):4d}: ours {spent:7.3f} us a request, Booster.predict(num_threads=1) "
        f"{plain:7.3f} us   {plain / spent:6.1f} times ours"
    )


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
