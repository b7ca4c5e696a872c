"""``dwise train --profile``: train from a finished profile, of this disk or the Hub."""

from __future__ import annotations

import shlex
from pathlib import Path

from dwise_predict.cli.display import progress_on
from dwise_predict.cli.options import require_train_extra
from dwise_predict.cli.sources import find_profile, hub_access, open_bundle
from dwise_predict.cli.summary import print_summary
from dwise_predict.pipeline import run_training_from_profile
from dwise_predict.profile import read_profile
from dwise_predict.recipe import PredictorSettings, load_recipe, predictor_settings
from dwise_predict.refresh import Origin


def retrain(
    profile: str,
    model: str | None,
    out: str | None,
    seed: int | None,
    overrides: tuple[str, ...],
    init_from: str | None = None,
    calibration_only: bool = False,
    trained_on: tuple[str, ...] = (),
) -> None:
    """Train from ``profile`` (a folder or ``hub:ORG/NAME[@REVISION]``) and print the result.

    With ``init_from``, that bundle is refreshed; ``trained_on`` are profiles it was trained on.
    Raises a DwiseError when the profile or the bundle cannot be had or used, or the run folder is
    taken.
    """
    access = hub_access(None, False)
    base, flags, origin = PredictorSettings(), ["--profile", profile], None
    if model is not None:
        recipe = load_recipe(model)
        base, seed = recipe.predictors, recipe.seed if seed is None else seed
        flags += ["--model", model]
    if init_from is not None:
        given = [read_profile(find_profile(name, access).folder) for name in trained_on]
        origin = Origin(open_bundle(init_from, access), calibration_only, tuple(given))
        base = origin.bundle.config.settings
        flags += ["--init-from", init_from]
        flags += ["--calibration-only"] if calibration_only else []
        for name in trained_on:
            flags += ["--trained-on", name]
    settings = predictor_settings(base, overrides)
    require_train_extra()
    place = find_profile(profile, access)
    suffix = "" if place.repo else "-retrained" if origin is None else "-refreshed"
    for flag, value in (("--out", out), ("--seed", seed)):
        flags += [] if value is None else [flag, str(value)]
    for override in overrides:
        flags += ["--set", override]
    result = run_training_from_profile(
        place.folder,
        Path(out or f"runs/{place.name}{suffix}"),
        settings,
        seed,
        progress_on(),
        shlex.join(["dwise", "train", *flags]),
        place.repo,
        origin,
    )
    print_summary(result)
