"""Smoke predictions: what a bundle must predict for fixed requests, on any machine.

Hashes say that files are as they were written; this says that they still mean the same here, with
this machine's LightGBM and torch. The eight requests are fixed. Their hidden means need not be
stored: request i (from 0) has in column j ::

    centre[j] + s / scale[j],   s = ((i + 1) * (j + 1) mod 7 - 3) / 2

with the bundle's own normalisation, and centre[j] where scale[j] is 0. Token j of its prompt, which
only the admission features ``extended`` read, is (2 * i + 1) * j.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dwise_predict.bundle.schema import SmokePrediction

if TYPE_CHECKING:
    from dwise_predict.predictors.admission import AdmissionPredictor
    from dwise_predict.predictors.refiner import Refiner

WORDS = (1, 6, 14, 31, 60, 120, 400, 6000)
NEWLINES = (0, 0, 1, 2, 5, 12, 30, 700)
PROMPT_TOKENS = (4, 12, 25, 57, 110, 230, 800, 10_000)
BUDGET_TOKENS = (256, 32, 64, 128, 256, 512, 1024, 2048)
ELAPSED = 5
"""Rounds done when ``mean_residual`` is asked for."""

ADMISSION_TOLERANCE = 1e-5
"""Relative; trees compare numbers, so only the rounding of what is stored matters."""
REFINER_TOLERANCE = 2e-3
"""Relative; float32 sums of another processor or library differ by some 1e-6, amplified by the
calibration map's slopes."""


def predict_smoke(
    admission: AdmissionPredictor, refiner: Refiner, tensors: Mapping[str, NDArray[np.float32]]
) -> SmokePrediction:
    """Predict the fixed requests with these predictors."""
    prompts = [(2 * i + 1) * np.arange(tokens) for i, tokens in enumerate(PROMPT_TOKENS)]
    total = admission.rounds_batch(WORDS, NEWLINES, PROMPT_TOKENS, prompts)
    hidden = smoke_hidden(tensors["centre"], tensors["scale"])
    remaining = refiner(hidden, np.array(PROMPT_TOKENS), np.array(BUDGET_TOKENS))
    return SmokePrediction(
        words=WORDS,
        newlines=NEWLINES,
        prompt_tokens=PROMPT_TOKENS,
        budget_tokens=BUDGET_TOKENS,
        admission=_rounded(total),
        mean=_rounded(remaining.mean().numpy()),
        mean_raw=_rounded(remaining.mean(calibrated=False).numpy()),
        mean_residual=_rounded(remaining.mean_residual(ELAPSED).numpy()),
    )


def smoke_hidden(centre: NDArray[np.float32], scale: NDArray[np.float32]) -> NDArray[np.float32]:
    """Hidden means of the fixed requests, float32 ``[8, hidden]``.

    Args:
        centre: float32 ``[hidden + 2]``; the last two belong to the token counts.
        scale: float32 ``[hidden + 2]``.
    """
    centre, scale = centre[:-2], scale[:-2]
    rows = np.arange(1, len(WORDS) + 1)[:, None]
    columns = np.arange(1, len(centre) + 1)[None, :]
    steps = ((rows * columns % 7 - 3) / 2).astype(np.float32)
    spread = np.divide(1, scale, out=np.zeros_like(scale), where=scale > 0)
    return centre + steps * spread


def smoke_differences(expected: SmokePrediction, found: SmokePrediction) -> list[str]:
    """One sentence per prediction that differs by more than the tolerance; empty when none does.

    The number of requests may differ from today's in bundles of other versions: then the inputs
    differ, which is a difference, too.
    """
    lines = []
    for name in type(expected).model_fields:
        stored, now = (np.array(getattr(x, name), dtype=np.float64) for x in (expected, found))
        if stored.shape != now.shape:
            lines.append(f"{name}: {len(stored)} values are stored, {len(now)} were predicted")
            continue
        tolerance = ADMISSION_TOLERANCE if name == "admission" else REFINER_TOLERANCE
        wrong = np.abs(now - stored) > tolerance * np.maximum(1, np.abs(stored))
        if wrong.any():
            i = int(wrong.argmax())
            lines.append(f"{name}: request {i} gives {now[i]:g}, stored is {stored[i]:g}")
    return lines


def _rounded(values: NDArray[np.floating]) -> tuple[float, ...]:
    return tuple(float(f"{value:.6g}") for value in values.tolist())
