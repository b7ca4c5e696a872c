"""The reference workload against what it was fitted to."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from dwise_predict.simulation.paper.lengths import CHOICE
from dwise_predict.simulation.paper.reference import CATEGORIES, reference_workload
from dwise_predict.simulation.paper.setups import SETUPS


def of(categories: tuple[str, ...], *names: str) -> np.ndarray:
    return np.isin(np.array(categories), names)


def test_composition_is_table_1() -> None:
    counts = Counter(reference_workload().categories)
    assert sum(counts.values()) == 4096
    assert counts["chat"] == 1085  # ShareGPT
    assert counts["code"] == 505 + 87  # MBPP, HumanEval
    assert counts["instruction"] == 296  # IFEval
    assert counts["math"] == 421 + 345  # MATH, GSM8K
    assert counts["multilingual_math"] == 258  # MGSM
    assert counts["multiple_choice"] + counts["hard_multiple_choice"] == 637 + 312
    assert counts["long_context"] == 150


def test_llada21_has_what_the_paper_says() -> None:
    workload = reference_workload()
    rounds, tokens = workload.rounds, workload.output_tokens
    work = rounds + workload.prompt_blocks
    assert np.quantile(rounds, [0.25, 0.5, 0.9]) == pytest.approx([14, 46, 149], rel=0.03)
    assert rounds.max() == pytest.approx(279, rel=0.02)
    assert rounds.mean() == pytest.approx(62, rel=0.03)
    code_and_math = of(workload.categories, "code", "math")
    open_ended = of(workload.categories, "chat", "instruction")
    assert rounds[code_and_math].mean() == pytest.approx(45, rel=0.03)
    assert rounds[open_ended].mean() == pytest.approx(115, rel=0.03)
    assert tokens[code_and_math].mean() == pytest.approx(242, rel=0.02)
    assert tokens[open_ended].mean() == pytest.approx(215, rel=0.02)
    assert tokens.mean() == pytest.approx(176, rel=0.02)
    assert (tokens == 256).mean() == pytest.approx(0.57, abs=0.02)
    choice = of(workload.categories, *CHOICE)
    assert choice.mean() == pytest.approx(0.23, abs=0.01)
    assert work[choice].sum() / work.sum() == pytest.approx(0.031, abs=0.003)
    assert workload.prompt_blocks[of(workload.categories, "long_context")].min() > 300
    assert work.sum() == pytest.approx(2819 * 113.2, rel=0.03)


@pytest.mark.parametrize(
    ("model", "median", "p90", "largest"),
    [
        ("LLaDA2.0-mini", 110, 236, 292),
        ("LLaDA2.2-mini", 53, 189, 296),
        ("SDAR-8B", 97.5, 252, 317),
        ("DiffusionGemma", 10, 18, 48),
    ],
)
def test_other_models_have_the_spread_of_table_8(
    model: str, median: float, p90: float, largest: float
) -> None:
    rounds = reference_workload(SETUPS[model].shape).rounds
    assert np.quantile(rounds, [0.5, 0.9]) == pytest.approx([median, p90], rel=0.06)
    assert rounds.max() == pytest.approx(largest, rel=0.03)


def test_sdar_long_prompts_are_most_of_40_percent_of_the_work() -> None:
    """Appendix 11: 2,684 prefill blocks on average, 40.7% of the work."""
    workload = reference_workload(SETUPS["SDAR-8B"].shape)
    work = workload.rounds + workload.prompt_blocks
    long = of(workload.categories, "long_context")
    assert workload.prompt_blocks[long].mean() == pytest.approx(2684, rel=0.05)
    assert work[long].sum() / work.sum() == pytest.approx(0.407, abs=0.03)


def test_a_seed_gives_the_same_requests_and_another_seed_others() -> None:
    first, again, other = reference_workload(), reference_workload(), reference_workload(seed=1)
    assert first.rounds_per_block == again.rounds_per_block
    assert first.categories == again.categories
    assert first.rounds_per_block != other.rounds_per_block
    assert sorted(first.request_ids) == list(first.request_ids)


def test_blocks_take_no_more_rounds_than_positions_and_a_commit() -> None:
    workload = reference_workload()
    for prompt, blocks in zip(workload.prompt_tokens, workload.rounds_per_block, strict=True):
        assert 2 <= blocks[0] <= 32 - int(prompt) % 32 + 1
        assert all(2 <= rounds <= 33 for rounds in blocks)
    assert set(CATEGORIES) == set(workload.categories)
