from __future__ import annotations

import socket
from pathlib import Path

import pytest

from dwise_predict.doctor import campaign, machine, software
from dwise_predict.doctor.machine import GIB, Gpu
from dwise_predict.recipe import load_recipe, recipe_names
from dwise_predict.sglang.compat import TESTED

GH200 = Gpu("GH200", int(94.5 * GIB), int(94 * GIB))
H100 = Gpu("H100", 80 * GIB, 79 * GIB)
SMALL = Gpu("A10", 24 * GIB, 23 * GIB)


def test_every_model_of_the_paper_fits_the_papers_gpu() -> None:
    for name in recipe_names():
        if name != "tiny":
            assert machine.memory(load_recipe(name), [GH200]).status == "ok", name


def test_a_gpu_too_small_for_the_pool_is_told_a_pool_that_fits() -> None:
    recipe = load_recipe("llada2.1-mini")
    found = machine.memory(recipe, [H100])
    assert found.status == "missing"
    assert "weights 30.3 GiB, KV cache 50.8 GiB" in found.message
    override = found.remedy.split(", or ")[0].removeprefix("--set ")
    assert machine.memory(load_recipe("llada2.1-mini", [override]), [H100]).status == "ok"
    spread = load_recipe("llada2.1-mini", ["engine.sglang.tp_size=2"])
    assert machine.memory(spread, [H100, H100]).status == "ok"


def test_a_gpu_too_small_for_the_weights_is_told_to_spread_the_model() -> None:
    found = machine.memory(load_recipe("llada2.1-mini"), [SMALL])
    assert found.status == "missing"
    assert found.remedy == "spread the model: --set engine.sglang.tp_size=2"


def test_too_few_gpus_and_busy_ones() -> None:
    spread = load_recipe("llada2.1-mini", ["engine.sglang.tp_size=4"])
    found = machine.memory(spread, [H100, H100])
    assert found.status == "missing"
    assert "2 GPUs here, 4 needed" in found.message
    assert "tp_size=2" in found.remedy
    busy = machine.memory(spread, [Gpu("H100", 80 * GIB, 10 * GIB)] * 4)
    assert busy.status == "warn"
    assert "only 10.0 GiB free" in busy.message
    assert machine.memory(load_recipe("sdar-8b"), []).status == "missing"


def test_weights_of_a_folder_are_measured(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(b"x" * 1000)
    (tmp_path / "b.safetensors").write_bytes(b"x" * 500)
    recipe = load_recipe("llada2.1-mini", [f"model.repo={tmp_path}"])
    assert machine.weights_bytes(recipe) == 1500
    unknown = load_recipe("llada2.1-mini", ["model.repo=acme/other"])
    assert machine.weights_bytes(unknown) is None
    assert machine.memory(unknown, [GH200]).status == "warn"


def test_disk_space_of_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    assert machine.disk("disk", tmp_path / "a" / "b", 1.0, "a run").status == "ok"
    full = machine.disk("disk", tmp_path / "a", 1e18, "a run")
    assert full.status == "missing"
    assert str(tmp_path) in full.message and "1000000000.0 GB needed for a run" in full.message
    (tmp_path / "file").write_text("x")
    assert machine.disk("disk", tmp_path / "file" / "b", 1.0, "a run").status == "missing"


def test_a_taken_port_is_a_warning_with_another() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        number = other.getsockname()[1]
        taken = load_recipe("sdar-8b", [f"engine.sglang.port={number}"])
        found = machine.port(taken)
        assert found.status == "warn"
        assert f"{number} cannot be used" in found.message
    assert machine.port(taken).status == "ok"


def test_the_file_of_a_workload(tmp_path: Path) -> None:
    flags = ["workload.name=jsonl", f"workload.path={tmp_path}/p.jsonl"]
    assert machine.workload(load_recipe("tiny", flags)).status == "missing"
    (tmp_path / "p.jsonl").write_text("{}")
    assert machine.workload(load_recipe("tiny", flags)).status == "ok"
    assert "1024 training" in machine.workload(load_recipe("tiny")).message


@pytest.mark.parametrize("name", recipe_names())
def test_recipes_set_what_the_algorithm_reads(name: str) -> None:
    assert software.decoding(load_recipe(name).decoding).status == "ok"


def test_decoding_parameters_that_nobody_reads() -> None:
    found = software.decoding(
        load_recipe("llada2.1-mini", ["decoding.parameters.editing_threshold=0.5"]).decoding
    )
    assert found.status == "missing"
    assert "does not read editing_threshold" in found.message
    assert "edit_threshold" in found.remedy
    bare = load_recipe("sdar-8b", ["decoding.parameters={}"]).decoding
    assert software.decoding(bare).status == "warn"


@pytest.mark.parametrize(
    ("override", "finding"),
    [
        ("threshold=7", "threshold is 7, and is compared with probabilities"),
        ("edit_threshold=-0.1", "edit_threshold is -0.1, and is compared with probabilities"),
        ("max_post_edit_steps=1.5", "max_post_edit_steps is 1.5, expected a whole number"),
    ],
)
def test_decoding_parameters_out_of_range(override: str, finding: str) -> None:
    recipe = load_recipe("llada2.1-mini", [f"decoding.parameters.{override}"])
    found = software.decoding(recipe.decoding)
    assert found.status == "missing" and finding in found.message


@pytest.mark.parametrize("device", ["gpu", "cuda1", "cuda:x", "CPU"])
def test_devices_that_do_not_exist(device: str) -> None:
    found = software.torch(load_recipe("llada2.1-mini", [f"engine.device={device}"]))
    assert found.status == "missing" and found.message == f"engine.device is '{device}'"


def test_releases_compare_as_numbers() -> None:
    assert software._numbers("0.5.9") < software._numbers("0.5.20") == (0, 5, 20)
    assert software._numbers("0.5.23.post1") == software._numbers(TESTED[-1])


def test_python_and_packages_of_the_test_environment() -> None:
    assert software.python().status == "ok"
    assert software.packages(load_recipe("llada2.1-mini")).status == "ok"
    assert software.torch(load_recipe("tiny")).status == "ok"


def test_hours_of_the_papers_models() -> None:
    hours = campaign.serving_hours(load_recipe("llada2.1-mini"), 6144)
    assert hours.hours == pytest.approx(6144 / 3.90 / 3600)
    sdar = campaign.serving_hours(load_recipe("sdar-8b"), 6144)
    assert sdar.hours == pytest.approx(6144 / 0.24 / 3600)
    budget = campaign.serving_hours(
        load_recipe("llada2.1-mini", ["decoding.budget_tokens=2048"]), 6144
    )
    assert budget.hours == pytest.approx(6144 / 3.90 / 3600 * 782.1 / 526.2)
    spread = load_recipe("llada2.1-mini", ["engine.sglang.tp_size=4", "engine.sglang.ep_size=4"])
    lines = campaign.describe(spread, 2048, 4096)
    assert any("1.5 GPU hours (0.37 h on 4 GPUs" in line for line in lines), lines


@pytest.mark.parametrize(
    ("model", "override", "reason"),
    [
        ("llada2.1-mini", "model.repo=acme/own", "does not have this model"),
        ("llada2.1-mini", "decoding.budget_tokens=300", "no figure for LLaDA2.1-mini"),
        ("sdar-8b", "engine.sglang.tp_size=2", "no figure for SDAR-8B"),
    ],
)
def test_what_the_paper_does_not_say_is_unknown(model: str, override: str, reason: str) -> None:
    recipe = load_recipe(model, [override])
    estimate = campaign.serving_hours(recipe, 100)
    assert estimate.hours is None
    assert reason in estimate.basis
    assert any(f"unknown: {estimate.basis}" in line for line in campaign.describe(recipe, 1, 1))
