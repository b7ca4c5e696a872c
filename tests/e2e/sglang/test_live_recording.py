"""Recording beside scheduling: a share of live traffic, without what prompts say."""

import hashlib
import logging
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dwise_predict.assembly import assemble_profile
from dwise_predict.bundle import PredictorBundle
from dwise_predict.errors import ProfileError
from dwise_predict.evaluate import BundleEvaluation
from dwise_predict.predictors.features import token_bins
from dwise_predict.profile import read_profile
from dwise_predict.recording import read_recording, read_records, recorded_requests
from dwise_predict.recording_writer import in_sample
from dwise_predict.scheduling import fcfs_scheduler
from tests.e2e.sglang.driving import DWISE
from tests.e2e.sglang.inprocess import Setting
from tests.e2e.sglang.server import Server
from tests.e2e.sglang.workloads import TINY, tiny_requests, torch_engine


@pytest.fixture(scope="module")
def served():
    """Requests, their texts and what the built-in engine measures of them."""
    engine = torch_engine()
    queue, requests = tiny_requests(engine, 32)
    return queue, requests, engine.serve(queue, fcfs_scheduler(8)).requests


@pytest.fixture
def serve(engine, served, tmp_path, monkeypatch):
    """Serves the queue by DWISE and records it; returns the engine and what was tracked."""
    queue, *_ = served

    def run(**variables):
        asked = {"BUNDLE": "tiny", "MODE": "schedule", "STRICT": "1", "PROFILE": tmp_path / "live"}
        for name, value in {**asked, **variables}.items():
            monkeypatch.setenv(f"DWISE_{name}", str(value))
        sglang = engine(Setting(TINY))
        for request in queue:
            sglang.submit(request.request_id, request.prompt_ids, request.budget_tokens)
        tracked = dict(sglang.scheduler._dwise.tracked)
        sglang.run()
        sglang.assert_drained()
        return sglang, tracked

    return run


def test_labels_estimates_and_hidden_means_are_those_of_a_campaign(serve, served, tmp_path):
    queue, requests, expected = served
    sglang, tracked = serve()
    state = sglang.internal_state()["dwise"]
    assert state["mode"] == "schedule" and state["fallbacks"] == {}
    assert state["recording"] == str(tmp_path / "live") and state["refinements"] > 0
    assert read_recording(tmp_path / "live").policy == "dwise"
    records = recorded_requests(tmp_path / "live")
    for request, answer in zip(queue, expected, strict=True):
        record, known = records[request.request_id], tracked[request.request_id]
        assert record["rounds_per_block"] == list(answer.rounds_per_block)
        assert record["admission_estimate"] == known.estimate
        refined = None if np.isnan(known.refined) else known.refined
        assert record["refined_estimate"] == refined
        tokens = np.array(request.prompt_ids, "<u4").tobytes()
        assert record["prompt_sha256"] == hashlib.sha256(tokens).hexdigest()
        assert not record.keys() & {"token_bins", "prompt_ids"}
        assert record["arrival_s"] <= record["admitted_s"] <= record["first_round_s"]
    rounds = [record for record in read_records(tmp_path / "live") if "index" in record]
    assert len(rounds) == state["rounds"]
    assert sum(row["slots"] for row in rounds) == state["filled_slots"]
    asked = [requests[request.request_id] for request in queue]
    profile = read_profile(
        assemble_profile(
            tmp_path / "live", asked, tmp_path / "p", workload="live", seed=0, budget_tokens=256
        )
    )
    np.testing.assert_allclose(
        profile.hidden.astype(np.float32),
        np.stack([answer.hidden_mean for answer in expected]).astype(np.float32),
        rtol=2e-3,
        atol=2e-3,
    )


def test_a_share_is_recorded_and_prompts_only_where_asked_for(serve, served, tmp_path):
    queue, *_ = served
    sglang, _ = serve(SAMPLE="0.5", KEEP_PROMPTS="1")
    records = recorded_requests(tmp_path / "live")
    chosen = {r.request_id: r for r in queue if in_sample(r.request_id, 0.5)}
    assert set(records) == set(chosen) and 0 < len(chosen) < len(queue)
    for request_id, record in records.items():
        assert record["prompt_ids"] == list(chosen[request_id].prompt_ids)
        assert record["token_bins"] == token_bins(chosen[request_id].prompt_ids)
    rounds = [record for record in read_records(tmp_path / "live") if "index" in record]
    state = sglang.internal_state()["dwise"]
    assert sum(row["slots"] for row in rounds) == state["filled_slots"]


def test_live_traffic_and_campaigns_are_not_mixed(serve, engine, tmp_path, monkeypatch):
    serve()
    monkeypatch.setenv("DWISE_MODE", "profile")
    with pytest.raises(ProfileError, match="policy: dwise -> fcfs"):
        engine(Setting(TINY))


def test_live_traffic_of_a_server_is_evaluated_and_refreshes_its_bundle(tmp_path):
    """The loop of docs/drift.md: chats through HTTP, half of them recorded without their text."""
    queue, requests = tiny_requests(torch_engine(), 240, seed=7)

    def chat(request):
        asked = {
            "model": "tiny",
            "messages": [m.model_dump() for m in requests[request.request_id].messages],
            "max_tokens": request.budget_tokens,
            "temperature": 0,
            "rid": request.request_id,
        }
        return server.post("/v1/chat/completions", asked)["usage"]["completion_tokens"]

    serve = [DWISE, "serve", "--bundle", "tiny", "--strict", "--sample", "0.5"]
    command = [*serve, "--record", str(tmp_path / "live"), "--"]
    with Server(Setting(TINY, radix=True), tmp_path, command=command) as server:
        with ThreadPoolExecutor(64) as pool:
            answered = list(pool.map(chat, queue))
        (said,) = server.dwise()
    assert min(answered) > 0 and said["mode"] == "schedule" and said["fallbacks"] == {}
    chosen = {request.request_id for request in queue if in_sample(request.request_id, 0.5)}
    records = recorded_requests(tmp_path / "live")
    kept = {name for name in records if not name.startswith("HEALTH_CHECK")}
    # SGLang warms up with a request of its own, with a random id.
    assert chosen <= kept and len(kept - chosen) <= 1 and 90 < len(chosen) < 150
    assert not any(record.keys() & {"token_bins", "prompt_ids"} for record in records.values())

    def dwise(*words):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("DWISE_")}
        ended = subprocess.run(
            [DWISE, *words], cwd=tmp_path, env=clean, capture_output=True, text=True, timeout=300
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    assert f"{len(kept)} requests" in dwise("profile", "merge", "live", "--out", "merged")
    dwise("evaluate", "--bundle", "tiny", "--profile", "merged", "--output", "found.json")
    found = BundleEvaluation.model_validate_json((tmp_path / "found.json").read_bytes())
    assert found.drift.requests == len(kept) and found.unseen.left_out == 0
    assert found.drift.refined.spearman > 0.5 and 0.5 < found.drift.refined.median_ratio < 2
    refresh = ("train", "--init-from", "tiny", "--profile", "merged")
    for name, more in {"calibrated": ["--calibration-only"], "trained": []}.items():
        dwise(*refresh, *more, "--out", name)
        new = PredictorBundle.load(tmp_path / name / "bundle")
        assert new.verify() == [] and new.config.digest != said["bundle_digest"]


def test_a_full_disk_ends_the_recording_and_nothing_else(
    engine, served, tmp_path, monkeypatch, caplog
):
    queue, _, expected = served
    monkeypatch.setenv("DWISE_BUNDLE", "tiny")
    monkeypatch.setenv("DWISE_MODE", "schedule")
    monkeypatch.setenv("DWISE_PROFILE", str(tmp_path / "live"))
    sglang = engine(Setting(TINY))
    runtime = sglang.scheduler._dwise
    with open("/dev/full", "w") as full, caplog.at_level(logging.ERROR, "dwise_predict.sglang"):
        runtime.recorder.writer.file = full
        for request in queue:
            sglang.submit(request.request_id, request.prompt_ids, request.budget_tokens)
        sglang.run()
        # What could not be written is tried again when a file is closed.
        with pytest.raises(OSError, match="No space"):
            full.close()
    sglang.assert_drained()
    assert [r for r in caplog.records if "STOPS RECORDING" in r.message]
    said = sglang.internal_state()["dwise"]
    assert said["mode"] == "schedule" and said["recording"] is None and said["reason"] == ""
    assert said["fallbacks"] == {"recording_failed": 1}
    for request, answer in zip(queue, expected, strict=True):
        assert sglang.output(request.request_id) == list(answer.output_ids)
