"""The embedded model behaves like its big sisters, and predictors learn from it what they should.

One default-size run with a seed that nothing was tuned on.
"""

from __future__ import annotations

import numpy as np

from dwise_predict.pipeline import RunResult
from dwise_predict.workload.answers import answer_kind
from dwise_predict.workload.jsonl import read_jsonl


def test_answers_end_by_themselves_in_few_parallel_rounds(result: RunResult) -> None:
    served = result.outcomes
    assert served.requests == 512
    assert served.ended_by_eos >= 0.90
    assert served.tokens_per_round >= 1.8


def test_rounds_are_heterogeneous(result: RunResult) -> None:
    served = result.outcomes
    assert served.rounds_p90 / served.rounds_p10 >= 8
    assert served.rounds_max / served.rounds_p50 >= 4


def test_half_of_the_checkable_answers_are_right(result: RunResult) -> None:
    right = sum(answers.right for answers in result.outcomes.answers.values())
    checked = sum(answers.checked for answers in result.outcomes.answers.values())
    assert checked > 200
    assert right / checked >= 0.5


def test_every_kind_of_answer_is_checked(result: RunResult) -> None:
    requests = read_jsonl(result.folder.workload)
    kinds = {answer_kind(r.answer) for r in requests if r.answer is not None}
    assert kinds == {"number", "letter", "items", "text"}


def test_long_prompts_are_twenty_times_the_median_prompt(result: RunResult) -> None:
    from dwise_predict.profile import read_profile

    requests = read_profile(result.folder.profile).requests
    tokens = requests["prompt_tokens"].to_numpy()
    long = np.array(requests["category"].to_pylist()) == "long_context"
    assert np.median(tokens[long]) >= 20 * np.median(tokens)


def test_the_first_round_tells_what_the_prompt_cannot(result: RunResult) -> None:
    admission, refined = result.metrics.admission, result.metrics.refined
    assert None not in (admission.spearman, refined.spearman)
    assert None not in (admission.spearman_within, refined.spearman_within)
    assert refined.spearman >= 0.85
    assert refined.spearman - admission.spearman >= 0.10
    assert refined.spearman_within >= 0.55
    assert refined.spearman_within - admission.spearman_within >= 0.30


def test_calibration_centres_the_ratio_and_does_not_cost_accuracy(result: RunResult) -> None:
    assert 0.95 <= result.metrics.refined.median_ratio <= 1.05
    assert result.metrics.refined.mae <= 1.02 * result.metrics.refined_raw.mae


def test_refined_ranks_survive_categories_never_seen(result: RunResult) -> None:
    together = [
        held_out
        for held_out in result.metrics.held_out.values()
        if set(held_out.categories) == {"multiple_choice", "hard_multiple_choice"}
    ]
    assert len(together) == 1
    assert together[0].refined.all_held_out >= 0.80
