"""Refined estimates for a scheduler, from the refiner of a bundle."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dwise_predict.engines.protocol import EngineRequest, Refine, Refinement
from dwise_predict.predictors.refiner import Refiner


def refine_with(refiner: Refiner, residuals: bool = False) -> Refine:
    """What :meth:`Engine.serve` asks after first denoising rounds, answered by ``refiner``.

    Answers are calibrated expected remaining rounds. With ``residuals`` each comes with its mean
    residual by further rounds, 0..K, for policies that follow it (``dwise`` with
    ``estimate="residual"``).
    """

    def refine(
        hidden_means: npt.NDArray[np.float16], requests: Sequence[EngineRequest]
    ) -> list[Refinement]:
        remaining = refiner(
            hidden_means,
            np.array([len(request.prompt_ids) for request in requests]),
            np.array([request.budget_tokens for request in requests]),
        )
        means = remaining.mean().tolist()
        if not residuals:
            return [Refinement(mean) for mean in means]
        curves = remaining.mean_residuals().tolist()
        return [Refinement(mean, curve) for mean, curve in zip(means, curves, strict=True)]

    return refine
