"""Profile mode: labels recorded in SGLang's own scheduler process."""

import numpy as np
import pytest

from dwise_predict.profile import read_profile
from dwise_predict.scheduling import fcfs_scheduler
from dwise_predict.sglang.recorder import assemble_profile
from tests.e2e.sglang.inprocess import Setting
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


def test_labels_and_hidden_means_are_those_of_the_built_in_engine(
    engine, served, tmp_path, monkeypatch
):
    queue, requests, expected = served
    sglang = record(engine, tmp_path / "recording", monkeypatch, queue)
    sglang.run()
    sglang.assert_drained()
    profile = read_profile(
        assemble_profile(
            tmp_path / "recording",
            [requests[request.request_id] for request in queue],
            tmp_path / "profile",
            workload="builtin",
            seed=0,
            budget_tokens=256,
        )
    )
    for i, (request, answer) in enumerate(zip(queue, expected, strict=True)):
        row = profile.requests.slice(i, 1).to_pylist()[0]
        assert row["request_id"] == request.request_id
        assert row["rounds_per_block"] == list(answer.rounds_per_block)
        assert row["output_tokens"] == len(answer.output_ids)
        assert row["finish_reason"] == answer.finish_reason
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
