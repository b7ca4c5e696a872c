"""Every experiment, in the order of the paper."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dwise_predict.experiments import (
    budgets,
    calibration,
    components,
    end_to_end,
    first_block,
    held_out,
    heterogeneity,
    load,
    output_length,
    overhead,
    parallelism,
    predictors,
    ranking,
    refinement,
    repeatability,
    residents,
    rounds,
    seeds,
    signals,
    tails,
)
from dwise_predict.experiments.experiment import Experiment

EXPERIMENTS: Mapping[str, Experiment] = MappingProxyType(
    {
        module.EXPERIMENT.name: module.EXPERIMENT
        for module in (
            heterogeneity,
            signals,
            end_to_end,
            rounds,
            ranking,
            components,
            load,
            calibration,
            refinement,
            held_out,
            residents,
            overhead,
            predictors,
            seeds,
            repeatability,
            output_length,
            parallelism,
            budgets,
            first_block,
            tails,
        )
    }
)
