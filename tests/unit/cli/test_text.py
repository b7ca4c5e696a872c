from __future__ import annotations

import pytest

from dwise_predict.cli.text import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain \u2014 text, \u6a21\u578b", "plain \u2014 text, \u6a21\u578b"),
        ("two\n\tlines", "two\n\tlines"),
        ("\x1b[31mred\x1b]0;title\x07", "\\x1b[31mred\\x1b]0;title\\x07"),
        ("over\rwritten\x08", "over\\rwritten\\x08"),
        ("\u202egnp.exe\x9b2J", "\\u202egnp.exe\\x9b2J"),
        ("\udc80", "\\udc80"),
    ],
)
def test_what_a_terminal_would_obey_is_shown(text: str, shown: str) -> None:
    assert printable(text) == shown
