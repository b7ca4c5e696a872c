from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from dwise_predict.engines.torch_engine.decoding import (
    JointThreshold,
    LowConfidence,
    algorithm_parameters,
    make_algorithm,
)
from dwise_predict.errors import EngineError

MASK, VOCAB = 9, 10
NONE = torch.zeros(1, dtype=torch.int64)


def logits_for(tokens: list[int], confidence: list[float]) -> Tensor:
    """[1, block, vocab] whose argmax is ``tokens`` with the given softmax probability."""
    logits = torch.zeros(1, len(tokens), VOCAB)
    for i, (token, p) in enumerate(zip(tokens, confidence, strict=True)):
        logits[0, i, token] = math.log(p * (VOCAB - 1) / (1 - p))
    return logits


def row(*ids: int) -> Tensor:
    return torch.tensor([ids])


def no_prompt(block: int) -> Tensor:
    return torch.zeros(1, block, dtype=torch.bool)


def test_low_confidence_unmasks_above_the_threshold_and_keeps_what_is_known() -> None:
    step = LowConfidence(threshold=0.8).step(
        logits_for([1, 2, 3, 4], [0.9, 0.7, 0.85, 0.99]),
        row(MASK, MASK, MASK, 5),
        no_prompt(4),
        NONE,
        MASK,
    )
    assert step.ids.tolist() == [[1, MASK, 3, 5]]
    assert step.done.tolist() == [False]


def test_low_confidence_takes_the_surest_masked_position_when_none_is_sure() -> None:
    step = LowConfidence(threshold=0.8).step(
        logits_for([1, 2, 3, 4], [0.5, 0.6, 0.55, 0.75]),
        row(MASK, MASK, MASK, 5),
        no_prompt(4),
        NONE,
        MASK,
    )
    assert step.ids.tolist() == [[MASK, 2, MASK, 5]]


def test_low_confidence_threshold_is_exclusive() -> None:
    step = LowConfidence(threshold=1.0).step(
        logits_for([1, 2], [0.999999999, 0.5]), row(MASK, MASK), no_prompt(2), NONE, MASK
    )
    assert step.ids.tolist() == [[1, MASK]]


def test_low_confidence_is_done_only_without_masks_on_entry() -> None:
    algorithm = LowConfidence(threshold=0.8)
    logits = logits_for([1, 2], [0.9, 0.9])
    step = algorithm.step(logits, row(MASK, MASK), no_prompt(2), NONE, MASK)
    assert step.ids.tolist() == [[1, 2]]
    assert step.done.tolist() == [False]
    step = algorithm.step(logits_for([7, 7], [0.9, 0.9]), step.ids, no_prompt(2), NONE, MASK)
    assert step.ids.tolist() == [[1, 2]]
    assert step.done.tolist() == [True]


@pytest.mark.parametrize(
    "algorithm",
    [LowConfidence(threshold=0.5), JointThreshold(threshold=0.5, edit_threshold=0.0)],
)
def test_prompt_positions_are_never_work(algorithm: LowConfidence | JointThreshold) -> None:
    step = algorithm.step(
        logits_for([1, 2, 3], [0.9, 0.9, 0.9]),
        row(MASK, 5, 3),
        torch.tensor([[True, True, False]]),
        NONE,
        MASK,
    )
    assert step.ids.tolist() == [[MASK, 5, 3]]
    assert step.done.tolist() == [True]


def test_joint_threshold_edits_while_it_unmasks_and_ends_on_the_step_that_changes_nothing() -> None:
    algorithm = JointThreshold(threshold=0.8, edit_threshold=0.9)
    logits = logits_for([1, 2, 3, 4], [0.85, 0.95, 0.85, 0.5])
    step = algorithm.step(logits, row(MASK, 6, 6, MASK), no_prompt(4), NONE, MASK)
    assert step.ids.tolist() == [[1, 2, 6, MASK]]
    assert step.done.tolist() == [False]
    assert step.post_edits.tolist() == [0]
    step = algorithm.step(logits, step.ids, no_prompt(4), step.post_edits, MASK)
    assert step.ids.tolist() == [[1, 2, 6, 4]]
    assert step.done.tolist() == [False]
    step = algorithm.step(logits, step.ids, no_prompt(4), step.post_edits, MASK)
    assert step.done.tolist() == [True]
    assert step.post_edits.tolist() == [1]


def test_joint_threshold_stops_editing_after_its_budget() -> None:
    algorithm = JointThreshold(edit_threshold=0.5, max_post_edit_steps=2)
    ids, edits, done = row(0, 0), NONE, [False]
    seen = []
    while not done[0]:
        target = 1 if ids[0, 0] != 1 else 2
        step = algorithm.step(
            logits_for([target, target], [0.9, 0.9]), ids, no_prompt(2), edits, MASK
        )
        ids, edits, done = step.ids, step.post_edits, step.done.tolist()
        seen.append(ids[0].tolist())
    assert seen == [[1, 1], [2, 2], [2, 2]]


def test_joint_threshold_penalises_repeating_the_left_neighbour() -> None:
    logits = logits_for([4, 4], [0.9, 0.9])
    before = logits.clone()
    free = JointThreshold(edit_threshold=0.95).step(logits, row(4, MASK), no_prompt(2), NONE, MASK)
    assert free.ids.tolist() == [[4, 4]]
    penalised = JointThreshold(edit_threshold=0.95, penalty_lambda=10).step(
        logits, row(4, MASK), no_prompt(2), NONE, MASK
    )
    assert penalised.ids[0, 1] != 4
    assert torch.equal(logits, before)


def test_the_largest_penalty_fits_float16_logits() -> None:
    algorithm = make_algorithm("JointThreshold", {"penalty_lambda": 10_000})
    logits = logits_for([4, 4], [0.9, 0.9]).half()
    assert algorithm.step(logits, row(4, MASK), no_prompt(2), NONE, MASK).ids[0, 1] != 4


def test_blocks_of_a_batch_are_independent() -> None:
    algorithm = LowConfidence(threshold=0.8)
    logits = torch.cat([logits_for([1, 2], [0.9, 0.5]), logits_for([3, 4], [0.6, 0.7])])
    ids = torch.tensor([[MASK, MASK], [MASK, MASK]])
    step = algorithm.step(logits, ids, torch.zeros(2, 2, dtype=torch.bool), NONE.repeat(2), MASK)
    assert step.ids.tolist() == [[1, MASK], [MASK, 4]]


def test_defaults_are_those_of_sglang() -> None:
    assert algorithm_parameters(make_algorithm("LowConfidence", {})) == {"threshold": 0.95}
    assert algorithm_parameters(make_algorithm("JointThreshold", {"threshold": 0.7})) == {
        "threshold": 0.7,
        "edit_threshold": 0.0,
        "max_post_edit_steps": 16.0,
        "penalty_lambda": 0.0,
    }


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("LowConfidense", {}, "did you mean 'LowConfidence'"),
        ("LowConfidence", {"edit_threshold": 0.5}, "valid: threshold$"),
        ("LowConfidence", {"threshold": 1.5}, "threshold is 1.5, expected 0 to 1"),
        ("JointThreshold", {"penalty_lambda": -1}, "penalty_lambda is -1"),
        ("LowConfidence", {"threshold": math.nan}, "threshold is nan, expected 0 to 1"),
        ("JointThreshold", {"penalty_lambda": 1e308}, "expected 0 to 10000"),
        ("JointThreshold", {"max_post_edit_steps": 1e300}, "expected 0 to 10000"),
        ("JointThreshold", {"max_post_edit_steps": 1.5}, "expected a whole number"),
    ],
)
def test_names_wrong_parameters(name: str, parameters: dict[str, float], message: str) -> None:
    with pytest.raises(EngineError, match=message):
        make_algorithm(name, parameters)
