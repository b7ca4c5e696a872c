"""Figure 1 and Table 8: what the prompt knows of the work, and what the first round knows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dwise_predict.evaluation.predictors import fit_finished_admission
from dwise_predict.experiments.base import base_of
from dwise_predict.experiments.experiment import Column, Experiment
from dwise_predict.experiments.plots import bars
from dwise_predict.experiments.recordings import recorded_prompts
from dwise_predict.experiments.settings import Settings
from dwise_predict.experiments.study import Answer, Study, computed_work, prompts_work
from dwise_predict.experiments.values import Value
from dwise_predict.experiments.work import Work
from dwise_predict.predictors.fitting import expected_remaining, fit_refiner
from dwise_predict.rank import spearman, spearman_within


def compare(settings: Settings, seed: int) -> Answer:
    """Rank correlations of predictors from each signal, on requests not trained on.

    Prompts shorter than a block have no prompt block whose hidden state could be read: all three
    signals are compared on the others.
    """
    base, training = base_of(settings, seed), settings.recipe.predictors
    prompts = recorded_prompts(settings, seed)
    usable = base.examples.finished & ~np.isnan(prompts[:, 0])
    train = base.examples.take(usable & base.in_training)
    asked = base.examples.take(usable & ~base.in_training)
    admission = fit_finished_admission(train, training, seed)
    from_prompt = replace(base.examples, hidden=prompts.astype(np.float32))
    refiners = {
        "prompt hidden state": (
            from_prompt.take(usable & base.in_training),
            from_prompt.take(usable & ~base.in_training),
        ),
        "first-round hidden state": (train, asked),
    }
    predicted = {
        "prompt features": admission.rounds_batch(
            asked.words, asked.newlines, asked.prompt_tokens, asked.token_bins.tolist()
        )
    } | {
        name: expected_remaining(fit_refiner(learnt, training.refiner, seed), unseen)
        for name, (learnt, unseen) in refiners.items()
    }
    return {
        name: {
            "spearman": spearman(values, asked.rounds),
            "spearman_within": spearman_within(values, asked.rounds, asked.category).mean,
        }
        for name, values in predicted.items()
    }


def _work(settings: Settings) -> list[Work]:
    seeds = range(settings.seeds)
    return prompts_work(settings, seeds) + computed_work(settings, EXPERIMENT.name, seeds, compare)


def _measure(study: Study) -> list[Value]:
    return study.answers(EXPERIMENT.name, study.seeds)


EXPERIMENT = Experiment(
    name="signals",
    source="Figure 1 and Table 8",
    title="Prompt features, prompt hidden state, first-round hidden state",
    columns=(
        Column("spearman", "Spearman", ".3f"),
        Column("spearman_within", "within a category", ".3f"),
    ),
    work=_work,
    measure=_measure,
    plot=bars("spearman", "Spearman correlation with true rounds"),
    differences="""\
The order is the paper's: features of the prompt say least, its hidden state says more, the first
denoising round says most. The distances are larger. Prompts of the generated workload hardly
give away how much work they are by their size, while in the paper long prompts and short answers
come from data sets of their own. Prompts shorter than a block (one in eight) have no prompt
block whose hidden state could be read, and are left out for all three signals; the prompt's
hidden state is the mean over its whole blocks, read by the same kind of network as the first
round's.""",
    not_with={"sglang": "hidden states of prompts come from the built-in engine alone"},
)
