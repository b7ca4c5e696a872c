from __future__ import annotations

import pytest

from dwise_predict.experiments.output import page
from dwise_predict.experiments.registry import EXPERIMENTS
from dwise_predict.experiments.values import Value


@pytest.mark.parametrize(("seeds", "words"), [(1, "one seed"), (3, "3 seeds")])
def test_pages_count_the_seeds_of_their_figures_not_those_of_the_command(
    seeds: int, words: str
) -> None:
    values = [Value("burst", "SGLang", "mean_latency_s", seed, 1.0 + seed) for seed in range(seeds)]
    text = page(EXPERIMENTS["seeds"], values, "dwise …", "Served")
    assert f"\n\nServed, {words}." in text
    assert ("±" in text) == (seeds > 1)
