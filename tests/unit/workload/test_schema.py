"""Requests: what a label may be, and how a prompt is identified."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from dwise_predict.workload.schema import Message, Request


def request(**fields: str) -> Request:
    return Request(request_id="1", messages=(Message(role="user", content="Hi"),), **fields)


@pytest.mark.parametrize(
    "category", ["/data/math", "~/x", "a:\nb", "q:\\", "x" * 81, "", "\x1b[1m"]
)
def test_categories_that_no_bundle_could_publish_are_refused_at_once(category: str) -> None:
    with pytest.raises(ValidationError):
        request(category=category)


@pytest.mark.parametrize("category", ["math/algebra", 'q:"easy"', "cost $x_$", "código", "a b"])
def test_odd_but_plain_categories_are_fine(category: str) -> None:
    assert request(category=category).category == category


def test_the_prompt_hash_tells_roles_and_turns_apart() -> None:
    one = Request(request_id="1", messages=(Message(role="user", content="a\nb"),))
    two = Request(
        request_id="1",
        messages=(Message(role="user", content="a"), Message(role="user", content="b")),
    )
    assert one.text == two.text
    assert one.prompt_sha256 != two.prompt_sha256
