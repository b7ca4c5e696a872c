"""``dwise train --profile``: train from a finished profile, of this disk or the Hub."""

from __future__ import annotations

import shlex
from pathlib import Path

from dwise_predict.cli.display import progress_on
from dwise_predict.cli.options import require_train_extra
from dwise_predict.cli.sources import hub_access
from dwise_predict.cli.summary import print_summary
from dwise_predict.hub.address import parse_address
from dwise_predict.pipeline import run_training_from_profile
from dwise_predict.profile_repo import fetch_profile
from dwise_predict.recipe import PredictorSettings, load_recipe, predictor_settings
from dwise_predict.run_folder import RunFolder

_HUB = "hub:"


def retrain(
    profile: str, model: str | None, out: str | None, seed: int | None, overrides: tuple[str, ...]
) -> None:
    """Train from ``profile`` (a folder or ``hub:ORG/NAME[@REVISION]``) and print the result.

    Raises a DwiseError when the profile cannot be had or used, or the run folder is taken.
    """
    base, flags = PredictorSettings(), ["--profile", profile]
    if model is not None:
        recipe = load_recipe(model)
        base, seed = recipe.predictors, recipe.seed if seed is None else seed
        flags += ["--model", model]
    settings = predictor_settings(base, overrides)
    require_train_extra()
    if profile.startswith(_HUB):
        found = fetch_profile(parse_address(profile.removeprefix(_HUB)), hub_access(None, False))
        source, repo, name = found.folder, str(found), found.repo.partition("/")[2]
    else:
        source, repo = _local(Path(profile)), None
        name = f"{source.resolve().parent.name}-retrained"
    for flag, value in (("--out", out), ("--seed", seed)):
        flags += [] if value is None else [flag, str(value)]
    for override in overrides:
        flags += ["--set", override]
    result = run_training_from_profile(
        source,
        Path(out or f"runs/{name}"),
        settings,
        seed,
        progress_on(),
        shlex.join(["dwise", "train", *flags]),
        repo,
    )
    print_summary(result)


def _local(folder: Path) -> Path:
    """A profile folder; the one of a run folder, too."""
    inner = RunFolder(folder).profile
    return inner if inner.is_dir() else folder
