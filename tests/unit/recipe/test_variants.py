"""The variants that docs/recipes.md names: their plans, without anything being served."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from dwise_predict.cli.plan import describe_run
from dwise_predict.recipe import load_recipe

DOCS = Path(__file__).parents[3] / "docs" / "recipes.md"
SECTION = DOCS.read_text(encoding="utf-8").partition("## Variants")[2].partition("\n## ")[0]
COMMANDS = [
    shlex.split(line, comments=True)
    for line in re.sub(r"\\\n\s*", "", re.findall(r"```sh\n(.*?)```", SECTION, re.DOTALL)[0])
    .strip()
    .splitlines()
    if line.startswith("dwise")
]


def flag(words: list[str], name: str) -> list[str]:
    return [words[i + 1] for i, word in enumerate(words) if word == name]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[4:]))
def test_documented_variants_have_a_plan(words: list[str], tmp_path: Path) -> None:
    assert words[:2] == ["dwise", "train"] and flag(words, "--out")
    recipe = load_recipe(flag(words, "--model")[0], flag(words, "--set"))
    plan = describe_run(recipe, tmp_path)
    for override in flag(words, "--set"):
        key, _, value = override.partition("=")
        assert f"{key.rpartition('.')[2]}: {value}" in plan
    assert "GPU hours" in plan or "unknown: the paper does not have this model" in plan


@pytest.mark.parametrize(
    ("overrides", "gpus", "relative"),
    [
        # Tables 14 and 13: mean latency against that of 256 tokens and one GPU.
        (["decoding.budget_tokens=512"], 1, 607.3 / 526.2),
        (["decoding.budget_tokens=1024"], 1, 688.7 / 526.2),
        (["decoding.budget_tokens=2048"], 1, 782.1 / 526.2),
        (["engine.sglang.tp_size=2"], 2, 498.1 / 543.0),
        (["engine.sglang.tp_size=4"], 4, 457.4 / 543.0),
        (["engine.sglang.tp_size=4", "engine.sglang.ep_size=4"], 4, 454.2 / 543.0),
    ],
)
def test_hours_of_budgets_and_spreads(
    overrides: list[str], gpus: int, relative: float, tmp_path: Path
) -> None:
    def hours(*settings: str) -> float:
        plan = describe_run(load_recipe("llada2.1-mini", settings), tmp_path)
        found = re.search(r"about ([0-9.]+) GPU hours", plan)
        assert found, plan
        return float(found[1])

    # Printed with two digits.
    assert hours(*overrides) == pytest.approx(hours() * gpus * relative, rel=0.03)
