"""DiffusionGemma (SGLang 0.5.23): ordered, with prompts encoded in rounds of their own."""

import base64

import numpy as np
import pytest

from dwise_predict.assembly import assemble_profile
from dwise_predict.recipe import PredictorSettings, RefinerSettings
from dwise_predict.recording import recorded_requests
from dwise_predict.training import train_bundle
from dwise_predict.workload.schema import Message, Request
from tests.e2e.sglang import environment
from tests.e2e.sglang.checkpoints import EOS
from tests.e2e.sglang.gemma import CANVAS, serve_on_cpu, write_gemma
from tests.e2e.sglang.inprocess import Setting
from tests.e2e.sglang.workloads import random_requests

STEPS = 12

pytestmark = pytest.mark.skipif(
    environment.VERSION == "0.5.20", reason="SGLang 0.5.20 has no DiffusionGemma"
)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory, hooks):
    serve_on_cpu()
    return write_gemma(tmp_path_factory.mktemp("gemma"))


def serve(sglang, queue):
    """Answers, and (context pass, request ids) of each round."""
    for request in queue:
        sglang.submit(request.request_id, request.prompt_ids, request.budget_tokens)
    rounds = []
    while not all(request.finished() for request in sglang.requests.values()):
        batch = sglang.step()
        rounds.append((not batch.forward_mode.is_dllm_extend(), [r.rid for r in batch.reqs]))
    sglang.assert_drained()
    return [sglang.output(request.request_id) for request in queue], rounds


@pytest.fixture
def setting(checkpoint):
    return Setting(
        checkpoint,
        algorithm="Gemma4Renoise",
        parameters={"seed": 3, "max_denoising_steps": STEPS},
        block_size=CANVAS,
        slots=4,
        # torch_native does not translate indices between the pools of hybrid attention.
        more={"skip_tokenizer_init": True, "disable_hybrid_swa_memory": True},
    )


def serve_tracked(sglang, queue, monkeypatch):
    """As :func:`serve`, and what the plugin knew of each request in the end."""
    runtime, tracked = sglang.scheduler._dwise, {}
    forget = runtime._forget

    def keep(request_id, *rest):
        tracked[request_id] = runtime.tracked[request_id]
        forget(request_id, *rest)

    monkeypatch.setattr(runtime, "_forget", keep)
    answers, rounds = serve(sglang, queue)
    assert runtime.state()["mode"] == "schedule"
    return answers, rounds, tracked


def check_phases(queue, rounds, tracked):
    """Prompts are one pass of their own; denoising rounds are the algorithm's steps."""
    for request in queue:
        own = [context for context, ids in rounds if request.request_id in ids]
        found = tracked[request.request_id]
        assert found.rounds == own.count(False) == sum(found.rounds_per_block)
        # The prompt, and each finished canvas but the last, is encoded in one pass.
        assert own[0] and own.count(True) == len(found.rounds_per_block)
        assert max(found.rounds_per_block) <= STEPS


@pytest.mark.parametrize("policy", ["fcfs", "mlfq"])
def test_phases_are_not_mixed_and_rounds_are_steps(engine, monkeypatch, setting, policy):
    queue = random_requests(12, longest=100, budget=40)
    expected, stock_rounds = serve(engine(setting, eos_ids=(EOS,)), queue)
    monkeypatch.setenv("DWISE_POLICY", policy)
    sglang = engine(setting, eos_ids=(EOS,))
    answers, rounds, tracked = serve_tracked(sglang, queue, monkeypatch)
    assert answers == expected and sglang.scheduler._dwise.state()["fallbacks"] == {}
    check_phases(queue, rounds, tracked)
    assert counted(stock_rounds) == counted(rounds)


def test_a_bundle_of_its_own_recording_orders_it(engine, monkeypatch, setting, tmp_path):
    """Record in SGLang, train, and schedule by the bundle: short answers come first."""
    queue = random_requests(64, longest=100, budget=96)
    folder = tmp_path / "recording"
    monkeypatch.setenv("DWISE_STRICT", "1")
    monkeypatch.setenv("DWISE_PROFILE", str(folder))
    expected, stock_rounds = serve(engine(setting, eos_ids=(EOS,)), queue)
    monkeypatch.delenv("DWISE_PROFILE")
    records = recorded_requests(folder)
    assert {key: record["rounds"] for key, record in records.items()} == counted(stock_rounds)
    for record in records.values():
        assert record["first_block_masked"] == CANVAS and record["prompt_blocks"] == 1
        hidden = np.frombuffer(base64.b64decode(record["hidden"]), np.float16)
        assert hidden.shape == (64,) and np.isfinite(hidden).all() and hidden.any()

    requests = [
        Request(
            request_id=request.request_id,
            messages=(Message(role="user", content=request.request_id),),
            max_new_tokens=request.budget_tokens,
            split="eval" if i % 3 == 0 else "train",
        )
        for i, request in enumerate(queue)
    ]
    profile = assemble_profile(
        folder, requests, tmp_path / "profile", workload="random", seed=0, budget_tokens=96
    )
    small = RefinerSettings(width=32, members=1, epochs=150, calibration_folds=2)
    train_bundle(profile, tmp_path / "bundle", PredictorSettings(refiner=small), seed=0)

    monkeypatch.setenv("DWISE_BUNDLE", str(tmp_path / "bundle"))
    sglang = engine(setting, eos_ids=(EOS,))
    answers, rounds, tracked = serve_tracked(sglang, queue, monkeypatch)
    said = sglang.internal_state()["dwise"]
    assert said["policy"] == "dwise" and said["fingerprint"] == "compatible"
    # Words and newlines are unknown without a tokenizer, which is counted, not a fault.
    assert said["refinements"] > 0 and said["fallbacks"] == {"no_tokenizer": len(queue)}
    check_phases(queue, rounds, tracked)
    # A forward of one row rounds differently: stock with 1 slot differs from stock with 4 as well.
    alone = {ids[0] for _, ids in rounds + stock_rounds if len(ids) == 1}
    pairs = zip(queue, answers, expected, strict=True)
    different = {request.request_id for request, answer, stock in pairs if answer != stock}
    assert different <= alone and len(different) <= len(queue) / 6
    # Every prompt is one pass, so that the least estimates come first, of all that wait.
    wanted = sorted(tracked, key=lambda i: (tracked[i].estimate, tracked[i].order))[:4]
    assert set(rounds[0][1]) == set(wanted) != {request.request_id for request in queue[:4]}
    assert mean_end(rounds) < mean_end(stock_rounds)


def mean_end(rounds):
    """Mean over the requests of the round in which each ended."""
    ends = {request_id: i for i, (_, ids) in enumerate(rounds) for request_id in ids}
    return sum(ends.values()) / len(ends)


def counted(rounds):
    """Denoising rounds of each request."""
    counts = {}
    for context, ids in rounds:
        for request_id in ids if not context else ():
            counts[request_id] = counts.get(request_id, 0) + 1
    return counts
