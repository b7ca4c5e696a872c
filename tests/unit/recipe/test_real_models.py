"""The recipes of real models: the paper's settings, and what an override leaves behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from dwise_predict.engines.torch_engine.decoding import algorithm_parameters, make_algorithm
from dwise_predict.errors import RecipeError
from dwise_predict.recipe import Recipe, load_recipe, recipe_names
from dwise_predict.simulation.paper.setups import SDAR_KV_TOKENS
from dwise_predict.workload.paper import load_manifest

DOCS = Path(__file__).parents[3] / "docs" / "recipes.md"
REAL = [name for name in recipe_names() if name != "tiny"]

# Section 6.1 and the block sizes of Section 1: slots, block size, KV pool in GiB, SGLang.
PAPER = {
    "llada2.0-mini": (128, 32, 50.8, "0.5.20"),
    "llada2.1-mini": (128, 32, 50.8, "0.5.20"),
    "llada2.2-mini": (128, 32, 50.8, "0.5.23"),
    "sdar-8b": (128, 4, 65.9, "0.5.20"),
    "diffusiongemma-26b-a4b": (16, 256, 13.1, "0.5.23"),
}


def test_the_five_models_of_the_paper() -> None:
    assert sorted(PAPER) == sorted(REAL)


@pytest.mark.parametrize("name", REAL)
def test_settings_of_the_paper(name: str) -> None:
    recipe = load_recipe(name)
    engine, decoding = recipe.engine, recipe.decoding
    assert engine.sglang is not None
    assert (
        engine.slots,
        decoding.block_size,
        engine.sglang.kv_pool_gib,
        engine.sglang.min_version,
    ) == PAPER[name]
    assert (decoding.budget_tokens, engine.dtype, decoding.fdfo) == (256, "bfloat16", True)
    assert (engine.sglang.tp_size, engine.sglang.ep_size) == (1, 1)
    parts = load_manifest().parts
    assert recipe.workload.name == "paper"
    assert recipe.workload.train == sum(part.train for part in parts) == 2048
    assert recipe.workload.eval == sum(part.eval for part in parts) == 4096


@pytest.mark.parametrize("name", REAL)
def test_a_recipe_says_where_its_settings_come_from(name: str) -> None:
    import dwise_predict

    text = (Path(dwise_predict.__file__).parent / "recipes" / f"{name}.yaml").read_text()
    for word in ("# repo ", "# revision ", "# decoding ", "https://huggingface.co/", "Paper, Sec"):
        assert word in text
    recipe = load_recipe(name)
    assert recipe.model.pinned or "NOT PINNED" in text


def test_decoding_parameters_are_written_out_in_full() -> None:
    """What a fingerprint compares must not depend on the defaults of an engine's version."""
    for name in ("llada2.0-mini", "llada2.1-mini", "sdar-8b"):
        decoding = load_recipe(name).decoding
        algorithm = make_algorithm(decoding.algorithm, decoding.parameters)
        assert algorithm_parameters(algorithm) == decoding.parameters


def test_the_kv_pool_in_tokens() -> None:
    sdar, llada = load_recipe("sdar-8b").engine.sglang, load_recipe("llada2.1-mini").engine.sglang
    assert sdar is not None and llada is not None
    assert sdar.max_total_tokens == pytest.approx(SDAR_KV_TOKENS, rel=0.001)
    assert llada.max_total_tokens == int(50.8 * 1024**2 / 40)
    gemma = load_recipe("diffusiongemma-26b-a4b").engine.sglang
    assert gemma is not None and gemma.max_total_tokens is None


def test_variants_are_overrides() -> None:
    budget = load_recipe("llada2.1-mini", ["decoding.budget_tokens=2048"])
    assert budget.decoding.budget_tokens == 2048
    spread = load_recipe(
        "llada2.1-mini", ["engine.sglang.tp_size=4", "engine.sglang.ep_size=4"]
    ).engine.sglang
    assert spread is not None and (spread.tp_size, spread.ep_size) == (4, 4)
    with pytest.raises(RecipeError, match="must divide"):
        load_recipe("llada2.1-mini", ["engine.sglang.tp_size=4", "engine.sglang.ep_size=3"])


def test_another_checkpoint_leaves_pin_and_sizes_behind() -> None:
    own = load_recipe("llada2.1-mini", ["model.repo=/data/own"]).model
    assert (own.revision, own.weights_gb, own.hidden_size) == (None, None, None)
    assert own.architecture == "LLaDA2MoeModelLM"
    named = load_recipe("llada2.1-mini", ["model.revision=v2", "model.repo=/data/own"]).model
    assert named.revision == "v2"


def test_sglang_settings_are_there_whenever_the_engine_is_sglang() -> None:
    assert load_recipe("tiny").engine.sglang is None
    other = load_recipe("tiny", ["engine.name=sglang"]).engine.sglang
    assert other is not None and other.port == 30_000
    # An SDAR checkpoint runs in the built-in engine with one override.
    assert load_recipe("sdar-8b", ["engine.name=torch"]).engine.name == "torch"


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("engine.sglang.tp_sise=2", "did you mean 'engine.sglang.tp_size'"),
        ("engine.sglang.min_version=new", "engine.sglang.min_version"),
        ("engine.sglang.mem_fraction_static=1.5", "less than 1"),
        ("engine.sglang.port=80", "greater than or equal to 1024"),
        ("model.weights_gb=-1", "greater than 0"),
        ("workload.name=books", "'builtin', 'jsonl' or 'paper'"),
    ],
)
def test_wrong_settings_are_refused(override: str, words: str) -> None:
    with pytest.raises(RecipeError, match=words.replace("(", r"\(")):
        load_recipe("llada2.1-mini", [override])


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every key of a recipe with its description."""
    for name, field in model.model_fields.items():
        kinds = [field.annotation, *get_args(field.annotation)]
        nested = [k for k in kinds if isinstance(k, type) and issubclass(k, BaseModel)]
        if nested:
            yield from keys(nested[0], f"{prefix}{name}.")
        else:
            assert field.description, f"{prefix}{name} is not described"
            yield f"{prefix}{name}", field.description


def test_every_key_is_documented_with_its_own_description() -> None:
    lines = DOCS.read_text(encoding="utf-8").splitlines()
    for key, description in keys(Recipe):
        matching = [line for line in lines if line.startswith(f"| `{key}` |")]
        assert len(matching) == 1, f"{key} has {len(matching)} rows in docs/recipes.md"
        assert description in matching[0], (key, description)
