from __future__ import annotations

import numpy as np
import pytest

from dwise_predict.simulation.sources import DEFAULT_MIX, SyntheticCategory, synthetic_source
from dwise_predict.work import output_blocks, prefill_blocks


def test_requests_are_what_a_model_could_have_served() -> None:
    source = synthetic_source(2000, seed=0)
    workload, facts = source.workload(), source.facts
    assert len(source) == len(workload) == 2000
    for i in range(2000):
        prompt, output = int(workload.prompt_tokens[i]), int(workload.output_tokens[i])
        assert 1 <= output <= 256 and prompt >= 1
        assert len(workload.rounds_per_block[i]) == output_blocks(prompt, output, 32)
        assert min(workload.rounds_per_block[i]) >= 1
        assert facts["prompt_blocks"][i].as_py() == prefill_blocks(prompt, 32)
    assert facts["rounds"].to_pylist() == workload.rounds.tolist()
    full = np.array(facts["finish_reason"].to_pylist()) == "budget"
    assert (full == (workload.output_tokens == 256)).all()


def test_shares_and_medians_are_those_of_the_mix() -> None:
    source = synthetic_source(20_000, seed=1)
    category = np.array(source.facts["category"].to_pylist())
    prompts = source.facts["prompt_tokens"].to_numpy()
    total = sum(wanted.share for wanted in DEFAULT_MIX)
    for wanted in DEFAULT_MIX:
        inside = category == wanted.name
        assert inside.mean() == pytest.approx(wanted.share / total, abs=0.012)
        assert np.median(prompts[inside]) == pytest.approx(wanted.prompt_tokens, rel=0.1)


def test_seeds_decide() -> None:
    once, again, other = (synthetic_source(50, seed).facts for seed in (1, 1, 2))
    assert once.equals(again) and not once.equals(other)


def test_own_mix_block_size_and_budget() -> None:
    only = SyntheticCategory("only", 1.0, 4, 0.0, 10, 0.0, 8, 0.0)
    source = synthetic_source(3, 0, [only], block_size=4, budget_tokens=8)
    assert source.facts["prompt_tokens"].to_pylist() == [10] * 3
    assert source.facts["output_blocks"].to_pylist() == [3] * 3
    assert source.facts["rounds"].to_pylist() == [4] * 3
    assert source.facts["finish_reason"].to_pylist() == ["budget"] * 3


def test_nobody_is_refused() -> None:
    with pytest.raises(ValueError, match="n must be between 1 and 1,000,000, not 0"):
        synthetic_source(0, 0)
