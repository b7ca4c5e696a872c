"""Fixtures of the SGLang tests; they need an environment with SGLang (``make test-sglang``)."""

import os
from importlib import util

import pytest

if util.find_spec("sglang") is None:
    collect_ignore_glob = ["*"]
else:
    from tests.e2e.sglang import environment

    environment.prepare()


@pytest.fixture(scope="session")
def hooks():
    """Our hooks, which are registered once a process; each engine then decides for itself."""
    from sglang.srt.plugins import load_plugins

    os.environ["DWISE_MODE"] = "schedule"
    load_plugins()
    del os.environ["DWISE_MODE"]


@pytest.fixture
def engine(tmp_path, hooks):
    """Starts engines and ends each before the next."""
    from tests.e2e.sglang.inprocess import Engine, shut_down

    folder = tmp_path / "engine"
    folder.mkdir()

    def start(setting, **options):
        shut_down()
        return Engine(setting, folder, **options)

    yield start
    shut_down()


@pytest.fixture(autouse=True)
def no_stand_in_was_called():
    """A result must not come from something that exists here only as a name."""
    import import_only
    import sglang.srt.managers.scheduler  # noqa: F401  (asks stand-ins for devices, once)

    before = len(import_only.CALLS)
    yield
    assert import_only.CALLS[before:] == []
