"""Scheduling mode on the real engine: what is served does not depend on the order of serving."""

import pytest

from tests.e2e.sglang.checkpoints import EOS, write_checkpoint
from tests.e2e.sglang.inprocess import Setting
from tests.e2e.sglang.workloads import TINY, random_requests

LOW = ("LowConfidence", {"threshold": 0.9})
JOINT = ("JointThreshold", {"threshold": 0.5, "edit_threshold": 0.2, "max_post_edit_steps": 4})


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


@pytest.mark.parametrize(
    ("model", "algorithm", "block_size", "radix"),
    [
        ("tiny", LOW, 16, False),
        ("tiny", JOINT, 16, True),
        ("sdar", LOW, 4, True),
        ("sdar", JOINT, 4, False),
        ("sdar", LOW, 32, False),
        ("sdar_moe", LOW, 4, False),
        ("sdar_moe", JOINT, 16, True),
        ("llada2", LOW, 32, True),
        ("llada2", JOINT, 32, False),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else str(value),
)
def test_tokens_do_not_depend_on_the_plugin(
    engine, monkeypatch, checkpoints, model, algorithm, block_size, radix
):
    queue = random_requests(64)
    name, parameters = algorithm
    setting = Setting(
        checkpoints[model],
        algorithm=name,
        parameters=parameters,
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
