"""Active or not is never a guess: the line at start, what the server says, strict mode."""

import logging
import math
import shutil
from importlib import resources

import pytest

from dwise_predict.errors import DwiseError
from tests.e2e.sglang.inprocess import Setting
from tests.e2e.sglang.workloads import TINY, random_requests

BUNDLE = resources.files("dwise_predict") / "zoo" / "tiny"


def damaged(folder):
    shutil.copytree(BUNDLE, folder)
    path = folder / "admission.txt"
    path.write_bytes(path.read_bytes()[:-10])
    return folder


REFUSALS = {
    "missing bundle": ({"DWISE_BUNDLE": "/nowhere/at/all"}, {}, "/nowhere/at/all"),
    "damaged bundle": ({"DWISE_BUNDLE": "{damaged}"}, {}, "admission.txt"),
    "other decoding": ({"DWISE_BUNDLE": "tiny"}, {"parameters": {"threshold": 0.8}}, "threshold"),
    "other algorithm": (
        {"DWISE_BUNDLE": "tiny"},
        {"algorithm": "JointThreshold", "parameters": {}},
        "JointThreshold",
    ),
    "no bundle": ({"DWISE_POLICY": "dwise"}, {}, "DWISE_BUNDLE"),
    "whole blocks": ({"DWISE_POLICY": "fcfs"}, {"fdfo": False}, "--no-dllm-fdfo"),
    "no diffusion": ({"DWISE_POLICY": "fcfs"}, {"algorithm": None}, "--dllm-algorithm"),
    "no slots": ({"DWISE_POLICY": "fcfs"}, {"slots": None}, "--max-running-requests"),
    "misspelt variable": ({"DWISE_BUNDEL": "tiny"}, {}, "DWISE_BUNDLE"),
    "bad policy": ({"DWISE_POLICY": "dwis"}, {}, "did you mean 'dwise'"),
    "bad slots": ({"DWISE_SLOTS": "many"}, {}, "DWISE_SLOTS"),
    "profile without folder": ({"DWISE_MODE": "profile"}, {}, "DWISE_PROFILE"),
}


@pytest.fixture
def refusal(request, tmp_path, monkeypatch):
    variables, changes, told = request.param
    for name, value in variables.items():
        if value == "{damaged}":
            value = str(damaged(tmp_path / "damaged"))
        monkeypatch.setenv(name, value)
    return Setting(TINY, **changes), told


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS, indirect=True)
def test_strict_mode_refuses_to_start(engine, refusal, monkeypatch):
    setting, told = refusal
    monkeypatch.setenv("DWISE_STRICT", "1")
    with pytest.raises(DwiseError, match=told):
        engine(setting)


@pytest.mark.parametrize(
    "refusal", [REFUSALS[name] for name in ("missing bundle", "other decoding")], indirect=True
)
def test_stock_serves_and_says_so(engine, refusal, caplog):
    setting, told = refusal
    with caplog.at_level(logging.ERROR, "dwise_predict.sglang"):
        sglang = engine(setting)
    (line,) = [record.message for record in caplog.records]
    assert "DWISE IS NOT ACTIVE" in line and told in line
    assert sglang.scheduler.dllm_config.max_running_requests == 8
    assert sglang.scheduler.req_to_token_pool.size == 8
    said = sglang.internal_state()["dwise"]
    assert said["mode"] == "off" and told in said["reason"] and said["policy"] == "stock fcfs"
    sglang.submit("a", range(40, 90), 64)
    sglang.run()
    sglang.assert_drained()


def test_an_active_server_says_what_it_does(engine, monkeypatch, caplog):
    monkeypatch.setenv("DWISE_BUNDLE", "tiny")
    monkeypatch.setenv("DWISE_RESIDENT_MULTIPLIER", "4")
    with caplog.at_level(logging.WARNING, "dwise_predict.sglang"):
        sglang = engine(Setting(TINY))
    (line,) = [r.message for r in caplog.records if "DWISE is active" in r.message]
    assert "policy dwise" in line and "slots 8" in line and "resident_multiplier 4" in line
    assert "fingerprint compatible" in line
    scheduler = sglang.scheduler
    assert scheduler.dllm_config.max_running_requests == 8
    assert scheduler.req_to_token_pool.size == 32
    said = sglang.internal_state()["dwise"]
    assert said["mode"] == "schedule" and said["reason"] == "" and said["bundle"]


class Broken:
    """A predictor that fails in its own way for every third request."""

    def __init__(self, fault):
        self.fault = fault
        self.calls = 0

    def rounds(self, **features):
        self.calls += 1
        if self.calls % 3 == 0:
            if self.fault == "raises":
                raise RuntimeError("no prediction today")
            return math.nan
        return 10.0


@pytest.mark.parametrize("fault", ["raises", "nan"])
def test_a_failed_prediction_degrades_one_request(engine, monkeypatch, fault):
    monkeypatch.setenv("DWISE_BUNDLE", "tiny")
    sglang = engine(Setting(TINY))
    runtime = sglang.scheduler._dwise
    runtime.activation.bundle.__dict__["admission"] = Broken(fault)
    for request in random_requests(12):
        sglang.submit(request.request_id, request.prompt_ids, request.budget_tokens)
    sglang.run()
    sglang.assert_drained()
    state = runtime.state()
    assert state["mode"] == "schedule"
    assert state["fallbacks"] == {"admission_failed": 4}


def test_failed_refinement_keeps_the_admission_estimate(engine, monkeypatch):
    monkeypatch.setenv("DWISE_BUNDLE", "tiny")
    sglang = engine(Setting(TINY))
    runtime = sglang.scheduler._dwise
    monkeypatch.setattr(runtime.tap, "estimates", lambda rows: [[math.nan] for _ in rows])
    for request in random_requests(12):
        sglang.submit(request.request_id, request.prompt_ids, request.budget_tokens)
    sglang.run()
    sglang.assert_drained()
    assert runtime.state()["fallbacks"] == {"refined_not_finite": 12}
    assert runtime.state()["refinements"] == 0


@pytest.mark.parametrize("where", ["plan", "form", "departed", "refined"])
def test_a_fault_of_the_plugin_leaves_stock_scheduling(engine, monkeypatch, where, caplog):
    monkeypatch.setenv("DWISE_BUNDLE", "tiny")
    sglang = engine(Setting(TINY))
    runtime = sglang.scheduler._dwise
    planner, calls = runtime.planner, []
    good = getattr(planner, where)

    def faulty(*arguments):
        calls.append(1)
        if len(calls) == 20 or (where == "refined" and len(calls) == 2):
            raise RuntimeError("a bug")
        return good(*arguments)

    monkeypatch.setattr(planner, where, faulty)
    for request in random_requests(64):
        sglang.submit(request.request_id, request.prompt_ids, request.budget_tokens)
    with caplog.at_level(logging.ERROR, "dwise_predict.sglang"):
        sglang.run()
    sglang.assert_drained()
    assert runtime.planner is None
    assert [r for r in caplog.records if "DWISE FAILED" in r.message]
    said = sglang.internal_state()["dwise"]
    assert said["mode"] == "off" and said["fallbacks"]["fault"] == 1


@pytest.mark.parametrize("strict", ["0", "1"])
def test_a_fault_before_the_scheduler_is_made(engine, monkeypatch, strict):
    def no_memory(*arguments, **options):
        raise MemoryError("no room for the tap")

    monkeypatch.setenv("DWISE_BUNDLE", "tiny")
    monkeypatch.setenv("DWISE_STRICT", strict)
    monkeypatch.setattr("dwise_predict.sglang.runtime.HiddenTap", no_memory)
    if strict == "1":
        with pytest.raises(MemoryError):
            engine(Setting(TINY))
        return
    sglang = engine(Setting(TINY))
    for request in random_requests(12):
        sglang.submit(request.request_id, request.prompt_ids, request.budget_tokens)
    sglang.run()
    sglang.assert_drained()
    said = sglang.internal_state()["dwise"]
    assert said["mode"] == "off" and "no room for the tap" in said["reason"]
