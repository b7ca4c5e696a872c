"""Ranks of a tensor-parallel server must plan the same; data-parallel replicas plan apart."""

import pytest

from dwise_predict.recording import recorded_requests, segments
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


def test_replicas_schedule_and_record_each_for_itself(tmp_path):
    live = tmp_path / "live"
    variables = {
        "SGLANG_CPU_OMP_THREADS_BIND": "0|1",
        "DWISE_BUNDLE": "tiny",
        "DWISE_MODE": "schedule",
        "DWISE_STRICT": "1",
        "DWISE_PROFILE": str(live),
    }
    more = {"dp_size": 2, "skip_server_warmup": True, "enable_metrics": True}
    queue = random_requests(32, seed=5)
    with Server(Setting(TINY), tmp_path, variables, **more) as server:
        answers = server.generate_all(queue)
        said = server.dwise()
        metrics = server.get("/metrics")
    assert all(isinstance(answer, list) for answer in answers)
    assert sorted(one["dp_rank"] for one in said) == [0, 1]
    assert all(one["rounds"] > 10 and one["fallbacks"] == {} for one in said)
    for one in said:
        labels = f'dp_rank="{one["dp_rank"]}",tp_rank="0"'
        assert f"dwise_rounds_total{{{labels}}} {one['rounds']}.0" in metrics
    assert len(segments(live)) == 2
    asked = {request.request_id for request in queue}
    assert asked <= recorded_requests(live).keys()
