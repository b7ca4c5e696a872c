"""Environment variables: what they mean and what is refused."""

import pytest

from dwise_predict.errors import EngineError
from dwise_predict.plugin.settings import Settings, asked
from dwise_predict.recording_writer import in_sample


def test_nothing_is_asked_for_without_variables():
    assert not asked({"PATH": "/bin"})
    assert not asked({"DWISE_MODE": "off", "DWISE_BUNDLE": "tiny"})
    assert asked({"DWISE_BUNDLE": "tiny"})


def test_kubernetes_services_named_dwise_are_not_meant():
    address = "tcp://10.0.0.1:30000"
    links = {
        "DWISE_SERVICE_HOST": "10.0.0.1",
        "DWISE_SERVICE_PORT_HTTP": "30000",
        "DWISE_PORT": address,
        "DWISE_LLADA_PORT_30000_TCP_ADDR": "10.0.0.1",
        "DWISE_LLADA_SERVICE_PORT": "",
    }
    assert not asked(links)
    assert Settings.from_environment({**links, "DWISE_BUNDLE": "x"}).bundle == "x"
    for name in ("DWISE_PORTS", "DWISE_SERVICE", "DWISE_REPORT"):
        with pytest.raises(EngineError, match=name):
            Settings.from_environment({name: "x"})


def test_defaults():
    settings = Settings.from_environment({"DWISE_BUNDLE": "org/name"})
    assert settings.mode == "schedule" and settings.policy == "dwise"
    assert settings.resident_multiplier == 8 and settings.slots is None and not settings.strict
    assert Settings.from_environment({"DWISE_PROFILE": "/x"}).mode == "profile"


@pytest.mark.parametrize(
    ("variables", "tokens"),
    [
        ({}, True),
        ({"DWISE_SAMPLE": "0.5"}, False),
        ({"DWISE_SAMPLE": "0.5", "DWISE_KEEP_PROMPTS": "1"}, True),
        ({"DWISE_MODE": "schedule", "DWISE_POLICY": "fcfs"}, False),
        ({"DWISE_MODE": "schedule", "DWISE_POLICY": "fcfs", "DWISE_KEEP_PROMPTS": "1"}, True),
    ],
)
def test_live_traffic_is_recorded_without_tokens(variables, tokens):
    settings = Settings.from_environment({"DWISE_PROFILE": "/x", **variables})
    assert settings.records_tokens == tokens


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_a_sample_is_a_share_of_the_requests_and_always_the_same(share):
    chosen = [i for i in range(4000) if in_sample(f"request-{i}", share)]
    assert abs(len(chosen) - 4000 * share) <= 4 * (4000 * share * (1 - share)) ** 0.5
    assert in_sample("request-0", 0.997) and not in_sample("request-0", 0.996)
    assert set(chosen) <= {i for i in range(4000) if in_sample(f"request-{i}", min(1, 2 * share))}


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"DWISE_BUNDEL": "x"}, "did you mean 'DWISE_BUNDLE'"),
        ({"DWISE_MODE": "on"}, "DWISE_MODE"),
        ({"DWISE_SLOTS": "0", "DWISE_POLICY": "fcfs"}, "DWISE_SLOTS is '0'"),
        ({"DWISE_RESIDENT_MULTIPLIER": "-1", "DWISE_POLICY": "fcfs"}, "MULTIPLIER is '-1'"),
        ({"DWISE_STRICT": "yes"}, "DWISE_STRICT is 'yes', expected 0 or 1"),
        ({"DWISE_MODE": "profile"}, "DWISE_PROFILE"),
        ({"DWISE_BUNDLE": "x", "DWISE_SAMPLE": "0.5"}, "DWISE_PROFILE"),
        ({"DWISE_BUNDLE": "x", "DWISE_KEEP_PROMPTS": "1"}, "DWISE_PROFILE"),
        ({"DWISE_PROFILE": "x", "DWISE_SAMPLE": "half"}, "DWISE_SAMPLE is 'half'"),
        ({"DWISE_PROFILE": "x", "DWISE_SAMPLE": "0"}, "DWISE_SAMPLE is '0'"),
        ({"DWISE_PROFILE": "x", "DWISE_SAMPLE": "nan"}, "DWISE_SAMPLE is 'nan'"),
        ({"DWISE_POLICY": "dwise-residual"}, "DWISE_BUNDLE"),
        ({"DWISE_BUNDLE": ""}, "DWISE_BUNDLE is empty"),
        ({"DWISE_MODE": "profile", "DWISE_PROFILE": ""}, "DWISE_PROFILE is empty"),
        ({"DWISE_BUNDLE": "x", "DWISE_PROFILE": "y"}, "DWISE_MODE is not"),
    ],
)
def test_mistakes_are_named(variables, told):
    with pytest.raises(EngineError, match=told):
        Settings.from_environment(variables)
