"""The corpus: repeatable, disjoint from every workload, and from all of its sources."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from dwise_predict.tiny.corpus import GENERATED_SHARES, Example, build_corpus, corpus_digest
from dwise_predict.workload.builtin import builtin_workload


@pytest.fixture(scope="module")
def corpus() -> list[Example]:
    return build_corpus(3000, seed=0)


def test_same_seed_same_corpus(corpus: list[Example]) -> None:
    assert corpus_digest(build_corpus(3000, seed=0)) == corpus_digest(corpus)
    assert corpus_digest(build_corpus(3000, seed=1)) != corpus_digest(corpus)


def test_no_workload_prompt_is_trained_on(corpus: list[Example]) -> None:
    prompts = {example.prompt for example in corpus}
    for seed in range(3):
        assert not prompts & {r.text for r in builtin_workload(500, 500, seed)}


def test_shares(corpus: list[Example]) -> None:
    counts = Counter(example.source for example in corpus)
    assert sum(GENERATED_SHARES.values()) == pytest.approx(1)
    for category, share in GENERATED_SHARES.items():
        assert counts[category] / len(corpus) == pytest.approx(share, abs=0.01)
    assert counts["standard_library"] > 0


def test_public_data_is_used_where_it_is_given(tmp_path: Path) -> None:
    folder = tmp_path / "gsm8k"
    folder.mkdir()
    rows = [
        {
            "question": f"What is {i} + {i}?",
            "answer": f"It is <<{i}+{i}={2 * i}>>{2 * i}.\n#### {2 * i}",
        }
        for i in range(4000)
    ]
    (folder / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    examples = [e for e in build_corpus(3000, 0, tmp_path) if e.source == "gsm8k"]
    assert examples
    assert all("<<" not in e.answer and "The answer is" in e.answer for e in examples)
