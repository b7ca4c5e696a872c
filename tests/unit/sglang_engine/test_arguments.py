"""A recipe as SGLang's arguments."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dwise_predict.engines.sglang_engine.arguments import (
    algorithm_config,
    command_flags,
    plugin_variables,
    server_arguments,
)
from dwise_predict.errors import RecipeError
from dwise_predict.plugin.settings import Settings
from dwise_predict.recipe import load_recipe, recipe_names

CONFIG = Path("/tmp/algorithm.yaml")


def arguments(name: str, *overrides: str) -> dict[str, object]:
    return server_arguments(load_recipe(name, overrides), CONFIG)


def test_llada_as_the_paper_serves_it() -> None:
    assert arguments("llada2.1-mini") == {
        "model_path": "inclusionAI/LLaDA2.1-mini",
        "revision": "20e64e2ad21644d0e5248586ed9c942cdd45de0f",
        "trust_remote_code": True,
        "dtype": "bfloat16",
        "device": "cuda",
        "tp_size": 1,
        "ep_size": 1,
        "attention_backend": "flashinfer",
        "max_total_tokens": int(50.8 * 2**20 / 40),
        "max_running_requests": 128,
        "dllm_algorithm": "JointThreshold",
        "dllm_algorithm_config": str(CONFIG),
        "random_seed": 0,
        "log_level": "info",
    }


def test_what_sglang_counts_with_is_whole_and_sections_are_sections() -> None:
    gemma = algorithm_config(load_recipe("diffusiongemma-26b-a4b").decoding)
    assert gemma == {
        "block_size": 256,
        "max_denoising_steps": 48,
        "sampler_config": {"entropy_bound": 0.1},
        "t_min": 0.4,
        "t_max": 0.8,
        "confidence_threshold": 0.005,
        "stability_threshold": 1,
        "seed": 0,
    }
    for name in ("max_denoising_steps", "stability_threshold", "seed"):
        assert type(gemma[name]) is int
    llada = algorithm_config(load_recipe("llada2.1-mini").decoding)
    assert type(llada["max_post_edit_steps"]) is int and type(llada["threshold"]) is float
    half = load_recipe("llada2.1-mini", ["decoding.parameters.max_post_edit_steps=1.5"])
    with pytest.raises(RecipeError, match=r"max_post_edit_steps is 1\.5, expected a whole"):
        algorithm_config(half.decoding)


@pytest.mark.parametrize("budget", [512, 1024, 2048])
def test_budgets_change_nothing_but_the_requests(budget: int) -> None:
    override = f"decoding.budget_tokens={budget}"
    assert arguments("llada2.1-mini", override) == arguments("llada2.1-mini")


@pytest.mark.parametrize(("tp", "ep"), [(2, 1), (4, 1), (4, 4)])
def test_spread_over_gpus(tp: int, ep: int) -> None:
    found = arguments("llada2.1-mini", f"engine.sglang.tp_size={tp}", f"engine.sglang.ep_size={ep}")
    assert (found["tp_size"], found["ep_size"]) == (tp, ep)
    flags = command_flags(found)
    assert flags[flags.index("--tp-size") + 1] == str(tp)
    assert flags[flags.index("--ep-size") + 1] == str(ep)


def test_what_is_open_is_left_to_sglang(tmp_path: Path) -> None:
    found = arguments(
        "sdar-8b", f"model.repo={tmp_path}", "engine.device=auto", "engine.sglang.kv_pool_gib=null"
    )
    assert found["model_path"] == str(tmp_path)
    for name in ("revision", "device", "max_total_tokens", "mem_fraction_static", "base_gpu_id"):
        assert name not in found
    second = arguments("sdar-8b", "engine.device=cuda:1")
    assert (second["device"], second["base_gpu_id"]) == ("cuda", 1)
    ids = "engine.sglang.config_overrides={delete_token_id: 3}"
    assert json.loads(str(arguments("llada2.2-mini", ids)["json_model_override_args"])) == {
        "delete_token_id": 3
    }


def test_a_flag_without_a_value_is_one_word() -> None:
    words = command_flags({"trust_remote_code": True, "tp_size": 1})
    assert words == ["--trust-remote-code", "--tp-size", "1"]


def test_whole_blocks_are_refused() -> None:
    with pytest.raises(RecipeError, match=r"decoding\.fdfo is false"):
        arguments("sdar-8b", "decoding.fdfo=false")


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_can_be_served(name: str) -> None:
    found = arguments(name, "engine.name=sglang")
    assert found["max_running_requests"] == load_recipe(name).engine.slots


def test_the_plugin_takes_its_variables(tmp_path: Path) -> None:
    stock = Settings.from_environment(plugin_variables(tmp_path, 8, "stock"))
    assert (stock.mode, stock.profile, stock.strict) == ("profile", tmp_path, True)
    mixed = Settings.from_environment(plugin_variables(tmp_path, 8, "mixed"))
    assert (mixed.mode, mixed.policy, mixed.slots) == ("schedule", "fcfs", 8)
    assert mixed.resident_multiplier == 1 and mixed.profile == tmp_path
