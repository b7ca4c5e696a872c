"""What a server says of itself, against what a campaign needs."""

from __future__ import annotations

from typing import Any

import pytest

from dwise_predict.engines.sglang_engine.state import Requirements, faults, server_state
from dwise_predict.fingerprint import Fingerprint
from dwise_predict.recipe import load_recipe

RECIPE = load_recipe("llada2.1-mini")
SERVED = Fingerprint(
    model=RECIPE.model.repo,
    revision=RECIPE.model.revision,
    architecture=RECIPE.model.architecture,
    hidden_size=2048,
    algorithm="JointThreshold",
    algorithm_parameters=RECIPE.decoding.parameters,
    block_size=32,
    fdfo=True,
    budget_tokens=1,
    engine="sglang",
    engine_version="0.5.20",
    dtype="bfloat16",
)


def info(**dwise: Any) -> dict[str, Any]:
    """The answer of ``/server_info`` of a server that fits."""
    said = {
        "mode": "profile",
        "policy": "stock fcfs",
        "slots": 128,
        "reason": "",
        "serves": SERVED.model_dump(),
        "recording": "/rec/0",
    }
    return {"max_req_input_len": 4090, "internal_states": [{"dwise": {**said, **dwise}}]}


def test_a_server_that_fits() -> None:
    state = server_state(info())
    assert faults(state, RECIPE, "stock") == []
    assert state.fingerprint == SERVED and str(state.recording) == "/rec/0"
    assert (state.slots, state.longest, state.routed) == (128, 4090, False)


@pytest.mark.parametrize(
    ("dwise", "words"),
    [
        ({"mode": "off", "reason": "no folder"}, "not active there: no folder"),
        ({"recording": None}, "does not record: start it with 'dwise profile serve'"),
        ({"mode": "schedule", "policy": "dwise"}, "serves by dwise in mode schedule"),
        ({"slots": 64}, "64 slots, the recipe's 128: start it with --max-running-requests 128"),
        ({"serves": None}, "older than this library"),
        ({"serves": {"model": "x"}}, "older than this library"),
    ],
)
def test_why_one_does_not(dwise: dict[str, Any], words: str) -> None:
    (fault,) = faults(server_state(info(**dwise)), RECIPE, "stock")
    assert words in fault


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"block_size": 16}, "decoding.block_size: 32 -> 16"),
        ({"dtype": "float32"}, "engine.dtype: bfloat16 -> float32"),
        ({"algorithm_parameters": {}}, "decoding.parameters.threshold: 0.5 -> None"),
        ({"model": "acme/other"}, f"model.repo: {RECIPE.model.repo} -> acme/other"),
        ({"revision": "main"}, f"model.revision: {RECIPE.model.revision} -> main"),
    ],
)
def test_in_what_it_differs_from_the_recipe(change: dict[str, Any], line: str) -> None:
    served = SERVED.model_copy(update=change).model_dump()
    assert line in faults(server_state(info(serves=served)), RECIPE, "stock")


def test_checkpoint_folders_are_known_by_content_only() -> None:
    own = load_recipe("llada2.1-mini", ["model.repo=/data/own"])
    served = SERVED.model_copy(update={"model": "local:own", "revision": "f" * 64}).model_dump()
    assert faults(server_state(info(serves=served)), own, "stock") == []


def test_mixed_batching_is_a_mode_of_its_own() -> None:
    mixed = info(mode="schedule", policy="fcfs")
    assert faults(server_state(mixed), RECIPE, "mixed") == []
    (fault,) = faults(server_state(info()), RECIPE, "mixed")
    assert "set DWISE_MODE=schedule and DWISE_POLICY=fcfs" in fault


def test_servers_must_be_the_same() -> None:
    requirements = Requirements(RECIPE, "stock")
    assert requirements.faults(server_state(info())) == []
    newer = SERVED.model_copy(update={"engine_version": "0.5.23"}).model_dump()
    (fault,) = requirements.faults(server_state(info(serves=newer)))
    assert "engine_version: 0.5.20 -> 0.5.23" in fault


def test_without_the_plugin_and_through_a_router() -> None:
    (fault,) = faults(server_state({"internal_states": [{}]}), RECIPE, "stock")
    assert "install dwise-predict there" in fault
    router = server_state({"status": "ready"})
    assert router.routed and faults(router, RECIPE, "stock") == []


def test_schedulers_of_data_parallelism_have_slots_of_their_own() -> None:
    two = info()
    two["internal_states"] *= 2
    state = server_state(two)
    assert state.slots == 256 and faults(state, RECIPE, "stock") == []
    two["internal_states"][1] = {"dwise": {"mode": "off", "reason": "a fault"}}
    assert "a fault" in faults(server_state(two), RECIPE, "stock")[0]
