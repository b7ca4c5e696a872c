"""Training the refiner: three members in one batched product against one after the other.

    python benchmarks/bench_refiner_training.py

2,048 requests with hidden size 2,048, calibration included in the first row only.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from dwise_predict.predictors.examples import Examples
from dwise_predict.predictors.fitting import fit_refiner, fit_refiner_calibration
from dwise_predict.recipe import RefinerSettings

REQUESTS, HIDDEN = 2048, 2048


def main() -> None:
    """Print seconds and ratios."""
    data, together = examples(), RefinerSettings()
    alone = together.model_copy(update={"members": 1})
    whole = seconds(
        lambda: (fit_refiner(data, together, 0), fit_refiner_calibration(data, together, 0))
    )
    batched = seconds(lambda: fit_refiner(data, together, 0))
    one_by_one = seconds(lambda: [fit_refiner(data, alone, seed) for seed in range(3)])
    for name, spent in (
        ("three members and calibration", whole),
        ("three members, batched", batched),
        ("three members, one by one", one_by_one),
    ):
        print(f"{name:30s} {spent:7.1f} s   {spent / batched:5.1f} times the batched members")


def examples() -> Examples:
    """Heavy-tailed rounds of which a tenth of the hidden dimensions know something."""
    rng = np.random.default_rng(0)
    level = rng.normal(0, 1, REQUESTS)
    rounds = np.clip(np.rint(np.exp(3.4 + level)), 2, 288).astype(np.int64)
    hidden = rng.normal(0, 1, (REQUESTS, HIDDEN)).astype(np.float32)
    hidden[:, : HIDDEN // 10] += 0.3 * level[:, None].astype(np.float32)
    tokens = rng.integers(20, 600, REQUESTS)
    return Examples(
        prompt=np.array([str(i) for i in range(REQUESTS)]),
        category=np.full(REQUESTS, "any"),
        words=tokens // 2,
        newlines=rng.integers(0, 5, REQUESTS),
        prompt_tokens=tokens,
        token_bins=np.full(REQUESTS, None),
        budget_tokens=np.full(REQUESTS, 256),
        hidden=hidden,
        rounds=rounds,
        finish_reason=np.full(REQUESTS, "eos"),
    )


def seconds(call: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
