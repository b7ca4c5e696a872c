"""Tensor parallelism: every rank plans for itself and must plan the same."""

import pytest

from dwise_predict.scheduling import fcfs_scheduler
from tests.e2e.sglang.inprocess import Setting
from tests.e2e.sglang.server import Server
from tests.e2e.sglang.workloads import TINY, random_requests, tiny_requests, torch_engine


@pytest.fixture
def two_ranks(tmp_path):
    """Starts a server of two ranks on CPUs."""

    def start(**variables):
        bind = {"SGLANG_CPU_OMP_THREADS_BIND": "0|1", "DWISE_BUNDLE": "tiny", "DWISE_STRICT": "1"}
        setting = Setting(TINY, more={"tp_size": 2, "skip_server_warmup": True})
        return Server(setting, tmp_path, {**bind, "DWISE_CHECK_RANKS": "1", **variables})

    return start


def test_ranks_plan_alike_and_answer_as_one(two_ranks, tmp_path):
    engine = torch_engine()
    queue, _ = tiny_requests(engine, 24)
    expected = engine.serve(queue, fcfs_scheduler(8)).requests
    with two_ranks(TEST_PLANS=str(tmp_path)) as server:
        answers = server.generate_all(queue)
        (said, *_) = server.dwise()
        assert said["mode"] == "schedule" and said["refinements"] > 0
        assert said["fallbacks"] == {}
    assert answers == [list(answer.output_ids) for answer in expected]
    plans = [(tmp_path / f"rank-{rank}.txt").read_text().splitlines() for rank in (0, 1)]
    # The server was killed: one rank may have written its last, empty plan and the other not.
    rounds = min(map(len, plans))
    assert rounds >= said["rounds"] > 50
    assert plans[0][:rounds] == plans[1][:rounds]


def test_a_skewed_rank_is_caught_within_a_round(two_ranks, tmp_path):
    with two_ranks(TEST_PLANS=str(tmp_path), TEST_SKEW="1") as server:
        answers = server.generate_all(random_requests(32, budget=200))
        server.process.wait(60)
        log = server.log.read_text()
    assert any(not isinstance(answer, list) for answer in answers)
    assert "RankMismatchError" in log and "planned different rounds at round 21" in log
