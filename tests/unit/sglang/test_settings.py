"""Environment variables: what they mean and what is refused."""

import pytest

from dwise_predict.errors import EngineError
from dwise_predict.sglang.settings import Settings, asked


def test_nothing_is_asked_for_without_variables():
    assert not asked({"PATH": "/bin"})
    assert not asked({"DWISE_MODE": "off", "DWISE_BUNDLE": "tiny"})
    assert asked({"DWISE_BUNDLE": "tiny"})


def test_defaults():
    settings = Settings.from_environment({"DWISE_BUNDLE": "org/name"})
    assert settings.mode == "schedule" and settings.policy == "dwise"
    assert settings.resident_multiplier == 8 and settings.slots is None and not settings.strict
    assert Settings.from_environment({"DWISE_PROFILE": "/x"}).mode == "profile"


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"DWISE_BUNDEL": "x"}, "did you mean 'DWISE_BUNDLE'"),
        ({"DWISE_MODE": "on"}, "DWISE_MODE"),
        ({"DWISE_SLOTS": "0", "DWISE_POLICY": "fcfs"}, "DWISE_SLOTS is '0'"),
        ({"DWISE_RESIDENT_MULTIPLIER": "-1", "DWISE_POLICY": "fcfs"}, "MULTIPLIER is '-1'"),
        ({"DWISE_STRICT": "yes"}, "DWISE_STRICT is 'yes', expected 0 or 1"),
        ({"DWISE_MODE": "profile"}, "DWISE_PROFILE"),
        ({"DWISE_POLICY": "dwise-residual"}, "DWISE_BUNDLE"),
    ],
)
def test_mistakes_are_named(variables, told):
    with pytest.raises(EngineError, match=told):
        Settings.from_environment(variables)
