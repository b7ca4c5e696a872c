import pytest

from dwise_predict.errors import HubError
from dwise_predict.hub.address import Address, is_repo, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("acme/dwise-tiny", Address("acme/dwise-tiny")),
        ("acme/dwise-tiny@v1", Address("acme/dwise-tiny", "v1")),
        ("acme/x@refs/pr/3", Address("acme/x", "refs/pr/3")),
        ("a.b_c/D-1.5@0123abc", Address("a.b_c/D-1.5", "0123abc")),
    ],
)
def test_addresses_are_split_and_written_back(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "tiny", "a/b/c", "/abs/path", "../x", "a/..", "a/b@", "a/b@../x", "a b/c", "a/b c"),
        *("a/b@x y", "a--b/c", "a/b.git", "a/b\n", "-a/b", "x" * 97 + "/b", "https://hub/a/b"),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(HubError):
        parse_address(text)


def test_repo_ids_are_those_the_hub_accepts() -> None:
    assert is_repo("inclusionAI/LLaDA2.1-mini")
    assert not is_repo("builtin:tiny")
