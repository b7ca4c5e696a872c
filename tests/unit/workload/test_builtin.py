"""The built-in workload: composition, disjoint sets, determinism, and references that check out."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dwise_predict.errors import WorkloadError
from dwise_predict.workload.answers import answer_correct
from dwise_predict.workload.builtin import GENERATORS, builtin_workload, composition, partition
from dwise_predict.workload.builtin.mix import TABLE_1
from dwise_predict.workload.schema import newline_count, word_count


def test_composition_at_the_papers_size_is_table_1() -> None:
    assert composition(4096) == TABLE_1
    # Hand count for Table 1's shares of 100: chat 26.49, hard choice 15.55, math 18.70, ...
    assert composition(100)["chat"] == 26 + 1 or composition(100)["chat"] == 26
    assert composition(100)["long_context"] == 4


@given(st.integers(0, 5000))
def test_composition_adds_up_and_stays_within_one_of_the_share(total: int) -> None:
    counts = composition(total)
    assert sum(counts.values()) == total
    for category, count in counts.items():
        assert abs(count - total * TABLE_1[category] / 4096) < 1


def test_splits_are_disjoint_whatever_the_seeds() -> None:
    train = {r.prompt_sha256 for r in builtin_workload(400, 0, seed=1)}
    evaluation = {r.prompt_sha256 for s in (1, 2) for r in builtin_workload(0, 400, seed=s)}
    assert len(train) == 400
    assert not train & evaluation
    assert {partition(digest) for digest in train} == {"train"}
    assert {partition(digest) for digest in evaluation} == {"eval"}


def test_same_seed_same_workload_other_seed_another() -> None:
    assert builtin_workload(60, 30, seed=5) == builtin_workload(60, 30, seed=5)
    assert builtin_workload(60, 30, seed=5) != builtin_workload(60, 30, seed=6)


def test_requests_are_shuffled_over_categories_and_uniquely_named() -> None:
    requests = builtin_workload(300, 100, seed=0)
    assert len({r.request_id for r in requests}) == 400
    first_half = Counter(r.category for r in requests[:150])
    assert len(first_half) == len(GENERATORS)


@pytest.mark.parametrize("category", sorted(GENERATORS))
def test_reference_answers_pass_their_own_check(category: str) -> None:
    rng = Random(3)
    for _ in range(300):
        task = GENERATORS[category](rng)
        assert task.prompt.strip() and task.reference.strip()
        if task.answer is not None:
            assert answer_correct(task.answer, task.reference), task


def test_long_context_prompts_are_twenty_times_the_median_prompt() -> None:
    requests = builtin_workload(600, 0, seed=0)
    words = sorted(word_count(r.text) for r in requests)
    long = [word_count(r.text) for r in requests if r.category == "long_context"]
    assert min(long) >= 20 * words[len(words) // 2]


@pytest.mark.parametrize("category", sorted(set(GENERATORS) - {"long_context"}))
def test_prompt_length_does_not_follow_answer_length(category: str) -> None:
    # A trained model's rounds follow the length of its answer; were prompt length to follow it
    # too, admission would know what only the first denoising round should tell.
    from scipy.stats import spearmanr

    rng = Random(11)
    tasks = [GENERATORS[category](rng) for _ in range(1500)]
    prompt = [word_count(t.prompt) for t in tasks]
    answer = [len(t.reference) for t in tasks]
    assert abs(spearmanr(prompt, answer).statistic) < 0.4


def test_asking_for_more_prompts_than_exist_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from dwise_predict.workload.builtin import mix
    from dwise_predict.workload.builtin.task import Task

    fixed = dict.fromkeys(GENERATORS, lambda rng: Task(rng.choice("abcdefgh"), "yes"))
    monkeypatch.setattr(mix, "GENERATORS", fixed)
    with pytest.raises(WorkloadError, match=r"no more than \d+ distinct train prompts"):
        builtin_workload(500, 0, seed=0)


def test_feature_counts() -> None:
    assert word_count(" one  two\nthree ") == 3
    assert newline_count("a\n\nb\n") == 3
