"""Scheduling mode on the real engine: what is served does not depend on the order of serving."""

import itertools
import os
from dataclasses import replace

import pytest

from tests.e2e.sglang import environment
from tests.e2e.sglang.checkpoints import EOS, write_checkpoint
from tests.e2e.sglang.inprocess import Setting
from tests.e2e.sglang.workloads import TINY, random_requests

LOW, JOINT = "LowConfidence", "JointThreshold"
ALGORITHMS = {
    LOW: {"threshold": 0.9},
    JOINT: {"threshold": 0.5, "edit_threshold": 0.2, "max_post_edit_steps": 4},
}
MODELS = ("tiny", "sdar", "sdar_moe", "llada2")
BLOCK_SIZES = (4, 16, 32)
# The usual pairs: each model with both algorithms, with and without prefix cache.
SUBSET = (
    ("tiny", LOW, 16, False),
    ("tiny", JOINT, 16, True),
    ("tiny", LOW, 4, False),
    ("sdar", LOW, 4, True),
    ("sdar", JOINT, 4, False),
    ("sdar", LOW, 32, False),
    ("sdar_moe", LOW, 4, False),
    ("sdar_moe", JOINT, 16, True),
    ("llada2", LOW, 32, True),
    ("llada2", JOINT, 32, False),
    ("llada2", LOW, 16, True),
)


def cases():
    """The subset, or with ``WHOLE_PRODUCT=1`` (make tokens-sglang) the whole product."""
    if os.environ.get("WHOLE_PRODUCT") == "1":
        return list(itertools.product(MODELS, ALGORITHMS, BLOCK_SIZES, (False, True)))
    return SUBSET


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """Folders of random checkpoints by architecture; ``tiny`` is the embedded model."""
    folder = tmp_path_factory.mktemp("checkpoints")
    names = {"sdar": "SDARForCausalLM", "sdar_moe": "SDARMoeForCausalLM"}
    names["llada2"] = "LLaDA2MoeModelLM"
    written = {key: write_checkpoint(folder / key, value) for key, value in names.items()}
    return {"tiny": TINY, **written}


def serve(sglang, queue):
    """Serve a burst; returns answers, rounds, and rounds that left a slot empty for nothing."""
    for request in queue:
        sglang.submit(request.request_id, request.prompt_ids, request.budget_tokens)
    scheduler, rounds, wasteful = sglang.scheduler, 0, 0
    while not all(request.finished() for request in sglang.requests.values()):
        batch = sglang.step()
        rounds += 1
        unfinished = len(queue) - sum(r.finished() for r in sglang.requests.values())
        wasteful += len(batch.reqs) < min(scheduler.dllm_config.max_running_requests, unfinished)
    sglang.assert_drained()
    return [sglang.output(request.request_id) for request in queue], rounds, wasteful


@pytest.mark.parametrize(("model", "algorithm", "block_size", "radix"), cases(), ids=str)
def test_tokens_do_not_depend_on_the_plugin(
    engine, monkeypatch, checkpoints, model, algorithm, block_size, radix
):
    queue = random_requests(64)
    setting = Setting(
        checkpoints[model],
        algorithm=algorithm,
        parameters=ALGORITHMS[algorithm],
        block_size=block_size,
        radix=radix,
    )
    eos_ids = (0,) if model == "tiny" else (EOS,)
    answers, rounds, _ = serve(engine(setting, eos_ids=eos_ids), queue)
    monkeypatch.setenv("DWISE_POLICY", "mlfq")
    sglang = engine(setting, eos_ids=eos_ids)
    planned_answers, planned_rounds, wasteful = serve(sglang, queue)
    state = sglang.scheduler._dwise.state()
    assert state["mode"] == "schedule" and state["fallbacks"] == {}
    assert planned_answers == answers
    assert planned_rounds < rounds
    # Stock leaves slots empty, in its prefill rounds and for prompts shorter than a block.
    assert wasteful == 0


def longest_wait(sglang, queue):
    """Most rounds that a resident was left out of one after the other while a slot was free."""
    for request in queue:
        sglang.submit(request.request_id, request.prompt_ids, request.budget_tokens)
    scheduler, waited, longest = sglang.scheduler, {}, 0
    while not all(request.finished() for request in sglang.requests.values()):
        residents = list(scheduler.dllm_manager.waiting_queue)
        batch = sglang.step()
        free = len(batch.reqs) < scheduler.dllm_config.max_running_requests
        for request in residents:
            out = free and not request.finished() and request not in batch.reqs
            waited[request.rid] = waited.get(request.rid, 0) + 1 if out else 0
            longest = max(longest, waited[request.rid])
    return longest


def test_prompts_shorter_than_a_block_are_not_starved(engine, monkeypatch, checkpoints):
    """Stock SGLang 0.5.20 leaves them out of round after round while a slot is free."""
    queue = [
        replace(request, prompt_ids=request.prompt_ids[: 3 if i % 4 == 3 else None])
        for i, request in enumerate(random_requests(64, seed=2, longest=80, budget=200))
    ]
    setting = Setting(checkpoints["sdar"], JOINT, ALGORITHMS[JOINT], block_size=4)
    stock = longest_wait(engine(setting, eos_ids=(EOS,)), queue)
    if environment.VERSION == "0.5.20":
        assert stock > 100
    monkeypatch.setenv("DWISE_POLICY", "fcfs")
    assert longest_wait(engine(setting, eos_ids=(EOS,)), queue) == 0


@pytest.mark.parametrize("low_first", [False, True])
def test_priorities_go_before_remaining_work(engine, monkeypatch, low_first):
    monkeypatch.setenv("DWISE_BUNDLE", "tiny")
    more = {"enable_priority_scheduling": True, "schedule_low_priority_values_first": low_first}
    sglang = engine(Setting(TINY, slots=3, more=more))
    queue, priorities = random_requests(24, seed=4), (1, None, 7, 0)
    for i, request in enumerate(queue[:12]):
        sglang.submit(request.request_id, request.prompt_ids, 32, priority=priorities[i % 4])
    rounds = 0
    while not all(request.finished() for request in sglang.requests.values()):
        present = [r for r in sglang.requests.values() if not r.finished()]
        ran = sglang.step().reqs
        left_out = [r.priority for r in present if r not in ran]
        worst = [r.priority for r in ran]
        if left_out:
            assert max(worst) <= min(left_out) if low_first else min(worst) >= max(left_out)
        rounds += 1
        if rounds % 5 == 0 and len(sglang.requests) < len(queue):
            late = queue[len(sglang.requests)]
            sglang.submit(late.request_id, late.prompt_ids, 32, priority=priorities[rounds % 4])
    sglang.assert_drained()
    assert len(sglang.requests) > 16 and sglang.scheduler._dwise.state()["fallbacks"] == {}


@pytest.mark.parametrize("radix", [False, True])
def test_an_abort_between_two_blocks_frees_everything(engine, monkeypatch, radix):
    """SGLang 0.5.20 forgets the KV of residents that hold no row of the request pool."""
    monkeypatch.setenv("DWISE_BUNDLE", "tiny")
    sglang = engine(Setting(TINY, slots=1, radix=radix))
    long = sglang.submit("long", range(2, 402), 16)
    for _ in range(5):
        sglang.step()
    sglang.submit("short", range(2, 30), 4)
    sglang.step()
    assert [r.rid for r in sglang.scheduler.last_batch.reqs] == ["short"]
    assert not long.dllm_incomplete_ids
    sglang.abort("long")
    while not sglang.requests["short"].finished():
        sglang.step()
    sglang.assert_drained()
    assert sglang.scheduler._dwise.tracked == {}


def test_the_same_prompt_again_is_found_in_the_prefix_cache(engine, monkeypatch):
    monkeypatch.setenv("DWISE_BUNDLE", "tiny")
    sglang = engine(Setting(TINY, radix=True))
    prompt = range(2, 130)
    sglang.submit("first", prompt, 32)
    first = sglang.run()
    sglang.submit("again", prompt, 32)
    again = sglang.run()
    assert sglang.output("first") == sglang.output("again")
    assert again == first - len(prompt) // 16
    assert sglang.scheduler._dwise.state()["fallbacks"] == {}
    sglang.assert_drained()


@pytest.mark.parametrize("radix", [False, True])
def test_budgets_are_shortened_to_the_pool(engine, monkeypatch, radix):
    monkeypatch.setenv("DWISE_BUNDLE", "tiny")
    sglang = engine(Setting(TINY, kv_tokens=512, radix=radix))
    room = 512 - 50 - 16 - 2 * sglang.scheduler.page_size - 1
    for name, prompt in {"beyond": range(50), "short": range(60), "no room": range(495)}.items():
        ids = [10 + token for token in prompt]
        sglang.submit(name, ids, 40 if name == "short" else 1 << 30, ignore_eos=True)
    beyond, short, no_room = sglang.requests.values()
    assert no_room.finished_reason.to_json()["status_code"] == 400
    assert "495 tokens leave no room" in no_room.finished_reason.message
    sglang.run()
    sglang.assert_drained()
    assert len(sglang.output("beyond")) == room == beyond.sampling_params.max_new_tokens
    assert len(sglang.output("short")) == 40 == short.sampling_params.max_new_tokens


def test_an_id_can_be_used_again_right_after_its_abort(engine, monkeypatch):
    """Also when another request has just finished, which SGLang still counts as a resident."""
    monkeypatch.setenv("DWISE_BUNDLE", "tiny")
    sglang = engine(Setting(TINY))
    sglang.submit("first", range(40, 60), 16)
    sglang.run()
    assert len(sglang.scheduler.dllm_manager.waiting_queue) == 1
    sglang.submit("again", range(40, 80), 16)
    sglang.abort("again")
    sglang.submit("again", range(40, 90), 16)
    sglang.run()
    sglang.assert_drained()
    runtime = sglang.scheduler._dwise
    assert runtime.state()["mode"] == "schedule" and runtime.state()["fallbacks"] == {}
    # Nothing is kept for a metrics endpoint that this server does not have.
    assert runtime.counts.planning_s == runtime.counts.admission_ratio == []


def test_few_new_requests_a_round_do_not_hold_the_plan_up(engine, monkeypatch):
    monkeypatch.setenv("DWISE_BUNDLE", "tiny")
    sglang = engine(Setting(TINY, more={"prefill_max_requests": 1}))
    serve(sglang, random_requests(24))
    sglang.assert_drained()
    assert sglang.internal_state()["dwise"]["fallbacks"] == {}
