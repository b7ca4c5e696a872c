"""Aborts in every state, odd prompts and KV pressure: a short run of :mod:`soak`."""

import pytest

from tests.e2e.sglang.inprocess import Setting
from tests.e2e.sglang.soak import STATES, soak
from tests.e2e.sglang.workloads import TINY


@pytest.mark.parametrize("radix", [False, True])
def test_nothing_leaks_or_is_lost(engine, monkeypatch, radix):
    monkeypatch.setenv("DWISE_BUNDLE", "tiny")
    sglang = engine(Setting(TINY, kv_tokens=2048, radix=radix))
    seen = soak(sglang, 150, seed=3)
    assert set(STATES) - {"paused"} <= set(seen["aborted"])
    assert seen["refused"] > 0
    state = sglang.scheduler._dwise.state()
    assert state["mode"] == "schedule" and state["fallbacks"] == {}
    assert sglang.scheduler._dwise.tracked == {}
