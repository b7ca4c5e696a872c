"""DiffusionGemma (SGLang 0.5.23): ordered, with prompts encoded in rounds of their own."""

import base64

import numpy as np
import pytest

from dwise_predict.recording import recorded_requests
from tests.e2e.sglang import environment
from tests.e2e.sglang.checkpoints import EOS
from tests.e2e.sglang.gemma import CANVAS, serve_on_cpu, write_gemma
from tests.e2e.sglang.inprocess import Setting
from tests.e2e.sglang.workloads import random_requests

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


@pytest.mark.parametrize("policy", ["fcfs", "mlfq"])
def test_phases_are_not_mixed_and_rounds_are_steps(engine, monkeypatch, checkpoint, policy):
    queue = random_requests(12, longest=100, budget=40)
    setting = Setting(
        checkpoint,
        algorithm="Gemma4Renoise",
        parameters={"seed": 3, "max_denoising_steps": 12},
        block_size=CANVAS,
        slots=4,
        more={"skip_tokenizer_init": True},
    )
    expected, stock_rounds = serve(engine(setting, eos_ids=(EOS,)), queue)
    monkeypatch.setenv("DWISE_POLICY", policy)
    sglang = engine(setting, eos_ids=(EOS,))
    runtime, tracked = sglang.scheduler._dwise, {}
    forget = runtime._forget

    def keep(request_id, *rest):
        tracked[request_id] = runtime.tracked[request_id]
        forget(request_id, *rest)

    monkeypatch.setattr(runtime, "_forget", keep)
    answers, rounds = serve(sglang, queue)
    assert runtime.state()["mode"] == "schedule" and runtime.state()["fallbacks"] == {}
    assert answers == expected
    for request in queue:
        own = [context for context, ids in rounds if request.request_id in ids]
        found = tracked[request.request_id]
        assert found.rounds == own.count(False) == sum(found.rounds_per_block)
        # The prompt, and each finished canvas but the last, is encoded in one pass.
        assert own.count(True) == len(found.rounds_per_block)
        assert max(found.rounds_per_block) <= 12
    denoising = {request_id: n for request_id, n in counted(stock_rounds).items()}
    assert denoising == counted(rounds)


def test_rounds_and_hidden_means_are_recorded(engine, monkeypatch, checkpoint, tmp_path):
    queue = random_requests(6, longest=100, budget=40)
    monkeypatch.setenv("DWISE_PROFILE", str(tmp_path / "recording"))
    monkeypatch.setenv("DWISE_STRICT", "1")
    sglang = engine(
        Setting(
            checkpoint,
            algorithm="Gemma4Renoise",
            parameters={"seed": 3, "max_denoising_steps": 12},
            block_size=CANVAS,
            slots=4,
            more={"skip_tokenizer_init": True},
        ),
        eos_ids=(EOS,),
    )
    _, rounds = serve(sglang, queue)
    records = recorded_requests(tmp_path / "recording")
    assert {key: record["rounds"] for key, record in records.items()} == counted(rounds)
    for record in records.values():
        assert record["first_block_masked"] == CANVAS and record["prompt_blocks"] == 1
        hidden = np.frombuffer(base64.b64decode(record["hidden"]), np.float16)
        assert hidden.shape == (64,) and np.isfinite(hidden).all() and hidden.any()


def counted(rounds):
    """Denoising rounds of each request."""
    counts = {}
    for context, ids in rounds:
        for request_id in ids if not context else ():
            counts[request_id] = counts.get(request_id, 0) + 1
    return counts
