"""Situations for what goes beyond the paper: LLaDA2.1-mini at the paper's scale."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dwise_predict.simulation.arrivals import Pattern, arrival_times
from dwise_predict.simulation.beyond import BETTER_ADMISSION, Situation
from dwise_predict.simulation.paper.emulation import admission_estimates, refined_estimates
from dwise_predict.simulation.paper.reference import reference_workload
from dwise_predict.simulation.paper.setups import SETUPS
from dwise_predict.simulation.predictions import Predictions
from dwise_predict.simulation.residuals import curves
from dwise_predict.simulation.workload import FloatArray, SimulatedWorkload

MODEL = "LLaDA2.1-mini"
QUANTILES = (np.arange(32) + 0.5) / 32
WITHIN_CATEGORY = 0.46
"""Rank correlation inside a category of a better admission predictor: what hashed prompt tokens
reach on the tiny model for a category that training did not hold (docs/admission-features.md)."""
TRAINING_SEED = 1000
"""Another draw of requests, which stands for those that predictors are trained on."""


def reference_situation(arrival: Pattern, seed: int) -> Situation:
    """Another draw of requests, arrivals and predictor errors for every seed."""
    setup = SETUPS[MODEL]
    workload = reference_workload(setup.shape, seed)
    paper = _predictions(workload, seed)
    training = reference_workload(setup.shape, TRAINING_SEED + seed)
    seen = _predictions(training, TRAINING_SEED + seed)
    assert seen.refined is not None and paper.refined is not None
    rounds = training.rounds.astype(np.float64)
    later = rounds > 1
    errors = np.quantile((rounds[later] - 1) / seen.refined[later], QUANTILES)
    horizon = int(rounds.max())
    return Situation(
        workload=workload,
        arrivals=arrival_times(arrival, len(workload), setup.rate, seed),
        limits=setup.limits(),
        cost=replace(setup.cost, resident_ms=0.0),
        predictors={
            "paper": paper,
            BETTER_ADMISSION: replace(
                paper, admission=admission_estimates(workload, seed, WITHIN_CATEGORY)
            ),
        },
        curves={
            "mean": curves(paper.refined, errors, horizon, gittins=False),
            "gittins": curves(paper.refined, errors, horizon, gittins=True),
        },
        ratios={
            "paper": probe_ratios(rounds, seen.admission),
            BETTER_ADMISSION: probe_ratios(
                rounds,
                admission_estimates(training, TRAINING_SEED + seed, WITHIN_CATEGORY),
            ),
        },
    )


def probe_ratios(rounds: FloatArray, estimates: FloatArray) -> tuple[float, ...]:
    """Quantiles of true over estimated rounds, for :attr:`Dwise.probe`."""
    return tuple(np.quantile(rounds / estimates, QUANTILES).tolist())


def _predictions(workload: SimulatedWorkload, seed: int) -> Predictions:
    return Predictions(admission_estimates(workload, seed), refined_estimates(workload, seed))
