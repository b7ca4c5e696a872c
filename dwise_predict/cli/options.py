"""What the verbs that start a run have in common: the recipe and the run folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dwise_predict.errors import DwiseError

if TYPE_CHECKING:
    from dwise_predict.recipe import Recipe

_Verb = TypeVar("_Verb", bound=Callable[..., Any])
HELP_FLAGS = {"help_option_names": ["-h", "--help"]}
"""Context settings of every command."""

SEED = click.IntRange(0, 2**32 - 1)
"""What every random generator takes as a seed."""

_TRAIN_EXTRA = ("tokenizers", "jinja2", "matplotlib")
_EXPERIMENTS_EXTRA = ("transformers", "sklearn", "xgboost")

_CAMPAIGN_OPTIONS = [
    click.option("--workload", metavar="FILE.jsonl", help="Own prompts, one JSON object a line."),
    click.option("--out", metavar="DIR", help="Run folder.  [default: runs/<recipe name>]"),
    click.option("--seed", type=SEED, help="Seed of workload, training and split."),
    click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="KEY=VALUE",
        help="Override a recipe key, e.g. decoding.parameters.threshold=0.95. Repeatable.",
    ),
]
_RUN_OPTIONS = [
    click.option("--resume", is_flag=True, help="Continue an interrupted run."),
    click.option("--plan", is_flag=True, help="Print the resolved recipe and the stages; stop."),
    click.option(
        "--repeats",
        type=click.IntRange(1, 100),
        metavar="N",
        help="Serve N times in differing orders and say how stable rounds are (profile.repeats).",
    ),
    click.option(
        "--compare-batching",
        is_flag=True,
        help="Serve once more with mixed batching and compare (profile.compare_batching).",
    ),
]


def run_options(model_required: bool) -> Callable[[_Verb], _Verb]:
    """Add the flags that say what to run and where, and how far."""

    def add(verb: _Verb) -> _Verb:
        for option in reversed(_RUN_OPTIONS):
            verb = option(verb)
        return campaign_options(model_required)(verb)

    return add


def campaign_options(model_required: bool) -> Callable[[_Verb], _Verb]:
    """Add the flags that say what to run and where."""
    model = click.option(
        "--model",
        required=model_required,
        metavar="NAME|RECIPE.yaml",
        help="Built-in recipe, or a file.",
    )

    def add(verb: _Verb) -> _Verb:
        for option in reversed([model, *_CAMPAIGN_OPTIONS]):
            verb = option(verb)
        return verb

    return add


@dataclass(frozen=True)
class RunRequest:
    """The flags of :func:`run_options`, resolved."""

    recipe: Recipe
    out: Path
    flags: tuple[str, ...]


def resolve(
    model: str,
    workload: str | None,
    out: str | None,
    seed: int | None,
    overrides: tuple[str, ...],
    repeats: int | None = None,
    compare_batching: bool = False,
) -> RunRequest:
    """Turn flags into a recipe and a run folder. Raises RecipeError on anything unknown."""
    from dwise_predict.recipe import load_recipe

    applied = list(overrides)
    flags = ["--model", model]
    if workload is not None:
        applied += ["workload.name=jsonl", f"workload.path={_yaml_text(workload)}"]
        flags += ["--workload", workload]
    if seed is not None:
        applied.append(f"seed={seed}")
        flags += ["--seed", str(seed)]
    if repeats is not None:
        applied.append(f"profile.repeats={repeats}")
        flags += ["--repeats", str(repeats)]
    if compare_batching:
        applied.append("profile.compare_batching=true")
        flags.append("--compare-batching")
    recipe = load_recipe(model, applied)
    if out is not None:
        flags += ["--out", out]
    for override in overrides:
        flags += ["--set", override]
    return RunRequest(recipe, Path(out or f"runs/{recipe.name}"), tuple(flags))


def require_train_extra() -> None:
    """Say how to install what profiling and reports need, before any work is done."""
    _require(_TRAIN_EXTRA, "train")


def require_experiments_extra() -> None:
    """The same of what experiments compare with."""
    _require((*_TRAIN_EXTRA, *_EXPERIMENTS_EXTRA), "experiments")


def _require(modules: tuple[str, ...], extra: str) -> None:
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise DwiseError(
            f"this needs {', '.join(missing)}; install them with: "
            f"pip install 'dwise-predict[{extra}]'"
        )


def _yaml_text(value: str) -> str:
    """``value`` as YAML text, whatever it looks like."""
    return "'" + value.replace("'", "''") + "'"
