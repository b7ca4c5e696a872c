from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dwise_predict.errors import WorkloadError
from dwise_predict.workload.schema import Message, Request, Split
from dwise_predict.workload.split import split_requests


def _request(
    index: int, prompt: str, category: str = "default", split: Split | None = None
) -> Request:
    return Request(
        request_id=f"r{index}",
        messages=(Message(role="user", content=prompt),),
        category=category,
        split=split,
    )


@given(
    prompts=st.lists(
        st.tuples(st.integers(0, 15), st.sampled_from("abc"), st.sampled_from([None, "given"])),
        min_size=2,
        max_size=60,
    ).filter(lambda rows: len({prompt for prompt, _, _ in rows}) > 1),
    fraction=st.floats(0.05, 0.95),
    seed=st.integers(0, 3),
)
def test_no_prompt_is_on_both_sides_and_neither_side_is_empty(prompts, fraction, seed) -> None:
    # A given split depends on the prompt alone, so that the input is consistent.
    requests = [
        _request(i, str(p), c, ("train" if p % 2 else "eval") if given else None)
        for i, (p, c, given) in enumerate(prompts)
    ]
    result = split_requests(requests, fraction, seed)
    sides: dict[str, set[str | None]] = {}
    for before, after in zip(requests, result, strict=True):
        assert after.model_copy(update={"split": before.split}) == before
        assert before.split in (None, after.split)
        sides.setdefault(after.prompt_sha256, set()).add(after.split)
    assert all(len(side) == 1 for side in sides.values())
    if any(request.split is None for request in requests):
        unsplit = {r.prompt_sha256 for r in requests if r.split is None}
        given = {r.prompt_sha256 for r in requests if r.split is not None}
        if unsplit - given:
            assert {request.split for request in result} == {"train", "eval"}


def test_the_share_holds_overall_and_in_every_category() -> None:
    requests = [_request(i, f"prompt {i}", "abcde"[i % 5]) for i in range(300)]
    result = split_requests(requests, 0.33, seed=0)
    assert Counter(r.split for r in result)["eval"] == round(300 * 0.33)
    held = Counter(r.category for r in result if r.split == "eval")
    assert all(18 <= held[category] <= 22 for category in "abcde")


def test_the_split_depends_on_the_seed_but_not_on_the_order() -> None:
    requests = [_request(i, f"prompt {i}") for i in range(40)]
    sides = {r.request_id: r.split for r in split_requests(requests, 0.5, seed=1)}
    backwards = {r.request_id: r.split for r in split_requests(requests[::-1], 0.5, seed=1)}
    other = {r.request_id: r.split for r in split_requests(requests, 0.5, seed=2)}
    assert sides == backwards
    assert sides != other


def test_an_unsplit_twin_follows_the_given_split() -> None:
    requests = [_request(0, "same"), _request(1, "same", split="eval"), _request(2, "x")]
    assert [r.split for r in split_requests(requests, 0.5, 0)] == ["eval", "eval", "train"]


def test_identical_prompts_cannot_be_split() -> None:
    requests = [_request(i, "same") for i in range(10)]
    with pytest.raises(WorkloadError, match="at least two different prompts"):
        split_requests(requests, 0.33, 0)


def test_two_prompts_give_one_to_each_side() -> None:
    result = split_requests([_request(0, "a"), _request(1, "b")], 0.01, 0)
    assert {request.split for request in result} == {"train", "eval"}


def test_one_prompt_given_on_both_sides_is_refused_with_both_ids() -> None:
    requests = [_request(0, "same", split="train"), _request(1, "same", split="eval")]
    with pytest.raises(WorkloadError, match="'r0' and 'r1'"):
        split_requests(requests, 0.33, 0)
