from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

from dwise_predict.bundle.schema import AdmissionShape, RefinerShape
from dwise_predict.errors import RecipeError
from dwise_predict.recipe import (
    Recipe,
    dump_recipe,
    load_recipe,
    recipe_differences,
    recipe_names,
)


@pytest.mark.parametrize("name", recipe_names())
def test_every_packaged_recipe_loads_and_is_named_after_its_file(name: str) -> None:
    assert load_recipe(name).name == name


def test_a_dumped_recipe_reads_back_equal(tmp_path: Path) -> None:
    recipe = load_recipe("tiny", ["seed=7", "decoding.parameters.threshold=0.95"])
    path = tmp_path / "recipe.yaml"
    path.write_text(dump_recipe(recipe))
    assert load_recipe(str(path)) == recipe


@pytest.mark.parametrize(
    ("override", "value_of", "expected"),
    [
        ("engine.slots=16", lambda r: r.engine.slots, 16),
        (
            "decoding.parameters.threshold=1e-2",
            lambda r: r.decoding.parameters,
            {"threshold": 0.01},
        ),
        ("engine.threads=null", lambda r: r.engine.threads, None),
        ("model.revision=abc=def", lambda r: r.model.revision, "abc=def"),
        ("decoding.fdfo=false", lambda r: r.decoding.fdfo, False),
    ],
)
def test_overrides_are_typed_as_yaml(override, value_of, expected) -> None:
    assert value_of(load_recipe("tiny", [override])) == expected


def test_later_overrides_win_and_untouched_keys_stay() -> None:
    recipe = load_recipe("tiny", ["engine.slots=4", "engine.slots=8"])
    assert recipe.engine.slots == 8
    assert recipe.decoding == load_recipe("tiny").decoding


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("engine.slot=3", ["'engine.slot'", "did you mean 'engine.slots'", "engine.dtype"]),
        ("sed=3", ["'sed'", "did you mean 'seed'", "workload"]),
        ("predictors.refiner.widht=3", ["did you mean 'predictors.refiner.width'"]),
        ("engine.slots=0", ["'engine.slots' is 0", "greater than 0"]),
        ("engine.slots=many", ["'engine.slots' is 'many'", "integer"]),
        ("engine.slots=true", ["'engine.slots' is True", "not a boolean"]),
        ("engine=3", ["'engine' is 3", "section"]),
        ("engine.slots.deep=1", ["'slots' is a value, not a section"]),
        ("decoding.algorithm=Random", ["'Random'", "'LowConfidence', 'JointThreshold'"]),
        ("decoding.parameters.threshold=.nan", ["threshold", "finite"]),
        ("workload.path=x.jsonl", ["workload.name=jsonl"]),
        ("workload.name=jsonl", ["workload.path"]),
        ("name=../evil", ["'name' is '../evil'"]),
        ("name=" + "x" * 101, ["'name' is 'xxx", "at most 100 characters"]),
        ("seed", ["expected section.key=value"]),
        ("=3", ["expected section.key=value"]),
        ("engine..slots=3", ["expected section.key=value"]),
        ("seed={", ["--set 'seed={'", "YAML"]),
        ("model.revision=2024-13-45", ["--set 'model.revision=2024-13-45'", "month must be"]),
        ("seed=!!int x", ["--set 'seed=!!int x'", "YAML"]),
        ("seed=!!bool x", ["--set 'seed=!!bool x'", "YAML"]),
        ("seed=" + "9" * 5000, ["--set 'seed=999", "YAML"]),
        ("seed=0x" + "f" * 5000, ["'seed' is int too long to show", "less than 4294967296"]),
        ("seed=" + "[" * 3000, ["--set 'seed=[[[", "recursion"]),
        ('model.repo="a\\0b"', ["'model.repo'", "without a NUL character"]),
    ],
)
def test_a_wrong_override_is_refused_in_one_line(override: str, words: list[str]) -> None:
    with pytest.raises(RecipeError) as caught:
        load_recipe("tiny", [override])
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    "override",
    [
        "engine.slots=65537",
        "engine.threads=1025",
        "decoding.block_size=4097",
        "decoding.budget_tokens=1000001",
        "profile.shard_requests=1000001",
        "predictors.admission.learning_rate=1e308",
        "predictors.refiner.learning_rate=1.1",
        "predictors.refiner.weight_decay=10.5",
        "predictors.refiner.stop_fraction=0.51",
        "predictors.refiner.stop_fraction=1e-9",
    ],
)
def test_a_value_out_of_all_proportion_is_refused(override: str) -> None:
    key, _, value = override.partition("=")
    with pytest.raises(RecipeError, match=rf"'{key}' is '?{value}'?, but should be"):
        load_recipe("tiny", [override])


@pytest.mark.parametrize(
    ("section", "shape", "field"),
    [
        *(("admission", AdmissionShape, field) for field in ("trees", "leaves")),
        *(("refiner", RefinerShape, field) for field in ("members", "width", "layers")),
    ],
)
def test_a_recipe_asks_for_nothing_that_a_bundle_cannot_hold(
    section: str, shape: type[BaseModel], field: str
) -> None:
    schema = shape.model_json_schema()["properties"]
    largest = schema[field]["maximum"]
    key = f"predictors.{section}.{field}"
    recipe = load_recipe("tiny", [f"{key}={largest}"])
    assert getattr(getattr(recipe.predictors, section), field) == largest
    with pytest.raises(RecipeError, match=f"'{key}' is {largest + 1}"):
        load_recipe("tiny", [f"{key}={largest + 1}"])


def test_an_unknown_model_lists_the_valid_ones_and_the_closest() -> None:
    with pytest.raises(
        RecipeError, match=r"unknown model 'tinny'; did you mean 'tiny'\? valid: .*"
    ):
        load_recipe("tinny")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("just text", "no mapping"),
        ("a: [", "not valid YAML"),
        ("name: x\n", "is missing"),
        ("a: 2024-13-45", "not valid YAML"),
        ("a: " + "9" * 5000, "not valid YAML: Exceeds .* value has 5000 digits$"),
        ("[" * 3000, "not valid YAML"),
        ("{}", "is missing"),
    ],
)
def test_a_bad_recipe_file_names_itself(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(RecipeError, match=words) as caught:
        load_recipe(str(path))
    assert str(path) in str(caught.value)


def test_a_missing_recipe_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"absent\.yaml"):
        load_recipe(str(tmp_path / "absent.yaml"))


def test_differences_name_key_and_both_values() -> None:
    old = load_recipe("tiny")
    new = load_recipe("tiny", ["seed=3", "decoding.parameters.threshold=0.8"])
    assert recipe_differences(old, new) == [
        f"decoding.parameters.threshold: {old.decoding.parameters['threshold']} -> 0.8",
        "seed: 0 -> 3",
    ]
    assert recipe_differences(old, old) == []


def test_defaults_need_only_name_model_and_block_size() -> None:
    raw = yaml.safe_load(
        "{name: x, model: {repo: org/m, architecture: A}, decoding: {block_size: 4}}"
    )
    assert Recipe.model_validate(raw).workload.name == "builtin"
