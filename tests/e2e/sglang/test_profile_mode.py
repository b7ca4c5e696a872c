"""Profile mode: labels recorded in SGLang's own scheduler process."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dwise_predict.assembly import assemble_profile
from dwise_predict.bundle import PredictorBundle
from dwise_predict.errors import ProfileError
from dwise_predict.predictors.features import token_bins
from dwise_predict.profile import read_profile
from dwise_predict.recipe import AdmissionSettings, PredictorSettings, RefinerSettings
from dwise_predict.recording import recorded_requests
from dwise_predict.scheduling import fcfs_scheduler
from dwise_predict.training import train_bundle
from tests.e2e.sglang.inprocess import Setting
from tests.e2e.sglang.server import Server
from tests.e2e.sglang.workloads import TINY, tiny_requests, torch_engine


@pytest.fixture(scope="module")
def served():
    """Requests, their texts and what the built-in engine measures of them."""
    engine = torch_engine()
    queue, requests = tiny_requests(engine, 24)
    return queue, requests, engine.serve(queue, fcfs_scheduler(8)).requests


def record(engine, folder, monkeypatch, queue, setting=None):
    monkeypatch.setenv("DWISE_PROFILE", str(folder))
    sglang = engine(setting or Setting(TINY))
    assert sglang.scheduler._dwise.recorder is not None
    for request in queue:
        sglang.submit(request.request_id, request.prompt_ids, request.budget_tokens)
    return sglang


def assemble(folder, requests, queue, out):
    asked = [requests[request.request_id] for request in queue]
    return assemble_profile(folder, asked, out, workload="builtin", seed=0, budget_tokens=256)


def test_labels_and_hidden_means_are_those_of_the_built_in_engine(
    engine, served, tmp_path, monkeypatch
):
    queue, requests, expected = served
    sglang = record(engine, tmp_path / "recording", monkeypatch, queue)
    sglang.run()
    sglang.assert_drained()
    profile = read_profile(assemble(tmp_path / "recording", requests, queue, tmp_path / "profile"))
    for i, (request, answer) in enumerate(zip(queue, expected, strict=True)):
        row = profile.requests.slice(i, 1).to_pylist()[0]
        assert row["request_id"] == request.request_id
        assert row["rounds_per_block"] == list(answer.rounds_per_block)
        assert row["output_tokens"] == len(answer.output_ids)
        assert row["finish_reason"] == answer.finish_reason
        assert row["token_bins"] == token_bins(request.prompt_ids)
        assert row["first_block_masked"] == answer.first_block_masked
        assert row["arrival_s"] <= row["admitted_s"] <= row["first_round_s"]
        assert row["first_round_s"] < row["first_block_s"] <= row["finished_s"]
        np.testing.assert_allclose(
            profile.hidden[i].astype(np.float32),
            answer.hidden_mean.astype(np.float32),
            rtol=2e-3,
            atol=2e-3,
        )
    rounds = profile.rounds.to_pydict()
    assert sum(rounds["slots"]) - sum(rounds["prefill_slots"]) == sum(
        sum(answer.rounds_per_block) for answer in expected
    )


def test_a_killed_server_loses_only_requests_in_flight(served, tmp_path):
    queue, requests, expected = served
    folder = tmp_path / "recording"
    variables = {"DWISE_PROFILE": str(folder), "DWISE_STRICT": "1"}
    with Server(Setting(TINY), tmp_path, variables) as server:
        (said,) = server.dwise()
        assert said["mode"] == "profile" and said["policy"] == "stock fcfs"
        assert "DWISE records a profile" in server.log.read_text()
        with ThreadPoolExecutor(len(queue)) as pool:
            answers = [pool.submit(answered, server, request) for request in queue]
            while sum(answer.done() for answer in answers) < 8:
                time.sleep(0.02)
            early = {answer.result() for answer in answers if answer.done()}
            await_recorded(folder, early)
            server.kill()
    kept = recorded_requests(folder)
    assert len(early) >= 8 and len(kept) < len(queue)
    assert early <= set(kept)
    # A line cut in the middle, as a kill during a write leaves it.
    with (folder / "00001.jsonl").open("a") as file:
        file.write('{"request_id": "eval-')
    with pytest.raises(ProfileError, match="missing"):
        assemble(folder, requests, queue, tmp_path / "early")
    with Server(Setting(TINY), tmp_path, variables) as server:
        server.generate_all([r for r in queue if r.request_id not in kept])
        await_recorded(folder, {request.request_id for request in queue})
        server.kill()
    profile = read_profile(assemble(folder, requests, queue, tmp_path / "profile"))
    labels = profile.requests["rounds_per_block"].to_pylist()
    assert labels == [list(answer.rounds_per_block) for answer in expected]
    assert set(profile.requests["shard"].to_pylist()) == {1, 2}


def await_recorded(folder, request_ids):
    """An answer leaves the server a moment before its record is written."""
    until = time.monotonic() + 30
    while not request_ids <= set(recorded_requests(folder)):
        assert time.monotonic() < until, "requests were answered but not recorded"
        time.sleep(0.01)


def answered(server, request):
    """The request's id once its answer is there; None when the server went away before."""
    answer = server.generate(request)
    return request.request_id if isinstance(answer, list) else None


def test_another_server_is_not_mixed_in(engine, served, tmp_path, monkeypatch):
    queue, *_ = served
    folder = tmp_path / "recording"
    record(engine, folder, monkeypatch, queue[:1])
    monkeypatch.setenv("DWISE_STRICT", "1")
    with pytest.raises(ProfileError, match="threshold"):
        record(engine, folder, monkeypatch, [], Setting(TINY, parameters={"threshold": 0.8}))
    monkeypatch.delenv("DWISE_STRICT")
    monkeypatch.setenv("DWISE_PROFILE", str(folder))
    sglang = engine(Setting(TINY, slots=4))
    said = sglang.internal_state()["dwise"]
    assert said["mode"] == "off" and "slots: 8 -> 4" in said["reason"]


@pytest.mark.parametrize("features", ["sizes", "extended"])
def test_a_recording_trains_a_bundle_that_fits_the_server(engine, tmp_path, monkeypatch, features):
    """The whole way: record in SGLang, train, serve in SGLang."""
    torch_queue, requests = tiny_requests(torch_engine(), 96)
    folder = tmp_path / "recording"
    sglang = record(engine, folder, monkeypatch, torch_queue)
    sglang.run()
    monkeypatch.delenv("DWISE_PROFILE")
    split = [
        requests[request.request_id].model_copy(update={"split": "eval" if i % 3 == 0 else "train"})
        for i, request in enumerate(torch_queue)
    ]
    profile = assemble_profile(
        folder, split, tmp_path / "profile", workload="builtin", seed=0, budget_tokens=256
    )
    small = RefinerSettings(width=32, members=1, epochs=5, calibration_folds=2)
    settings = PredictorSettings(admission=AdmissionSettings(features=features), refiner=small)
    train_bundle(profile, tmp_path / "bundle", settings, seed=0)
    monkeypatch.setenv("DWISE_BUNDLE", str(tmp_path / "bundle"))
    monkeypatch.setenv("DWISE_STRICT", "1")
    sglang = engine(Setting(TINY))
    said = sglang.internal_state()["dwise"]
    assert said["mode"] == "schedule" and said["fingerprint"] == "compatible"
    for request in torch_queue[:16]:
        sglang.submit(request.request_id, request.prompt_ids, request.budget_tokens)
    tracked = dict(sglang.scheduler._dwise.tracked)
    sglang.run()
    sglang.assert_drained()
    state = sglang.scheduler._dwise.state()
    assert state["refinements"] > 0 and state["fallbacks"] == {}
    admission = PredictorBundle.from_pretrained(tmp_path / "bundle").admission
    assert admission.features == features
    for request in torch_queue[:16]:
        text = requests[request.request_id].text
        assert tracked[request.request_id].estimate == admission.rounds(
            words=len(text.split()),
            newlines=text.count("\n"),
            prompt_tokens=len(request.prompt_ids),
            token_ids=request.prompt_ids,
        )
