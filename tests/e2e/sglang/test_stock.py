"""The unmodified engine: it serves the embedded model as the built-in engine does."""

import ast
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from dwise_predict.scheduling import fcfs_scheduler
from tests.e2e.sglang.inprocess import Setting
from tests.e2e.sglang.workloads import TINY, tiny_requests, torch_engine


@pytest.fixture(scope="module")
def served():
    """A few requests and what the built-in engine answers."""
    engine = torch_engine()
    queue, _ = tiny_requests(engine, 24)
    return queue, engine.serve(queue, fcfs_scheduler(8)).requests


def test_nothing_is_hooked_without_our_variables():
    program = """if True:
        from tests.e2e.sglang import environment
        environment.prepare()
        from sglang.srt.plugins import load_plugins
        from sglang.srt.plugins.hook_registry import HookRegistry
        load_plugins()
        print({hook[2].plugin_name for hooks in HookRegistry._hooks.values() for hook in hooks})
    """
    clean = {k: v for k, v in os.environ.items() if not k.startswith("DWISE_")}
    for variables, plugins in (
        ({}, {"dwise_test_engine"}),
        ({"DWISE_MODE": "off", "DWISE_BUNDLE": "tiny"}, {"dwise_test_engine"}),
        ({"DWISE_BUNDLE": "tiny"}, {"dwise_test_engine", "dwise"}),
    ):
        answer = subprocess.run(
            [sys.executable, "-c", program],
            env=clean | variables,
            cwd=Path(__file__).parents[3],
            capture_output=True,
            text=True,
            check=True,
        )
        assert ast.literal_eval(answer.stdout.splitlines()[-1]) == plugins


@pytest.mark.parametrize("radix", [False, True])
def test_tokens_and_rounds_are_those_of_the_built_in_engine(engine, served, radix):
    queue, expected = served
    sglang = engine(Setting(TINY, radix=radix))
    assert sglang.scheduler._dwise is None
    for request in queue:
        sglang.submit(request.request_id, request.prompt_ids, request.budget_tokens)
    slots = Counter()
    while not all(request.finished() for request in sglang.requests.values()):
        batch = sglang.step()
        slots.update(request.rid for request in batch.reqs)
    for request, answer in zip(queue, expected, strict=True):
        assert sglang.output(request.request_id) == list(answer.output_ids)
        rounds = len(request.prompt_ids) // 16 + sum(answer.rounds_per_block)
        if not radix:
            assert slots[request.request_id] == rounds
        else:
            assert slots[request.request_id] <= rounds
    sglang.assert_drained()
