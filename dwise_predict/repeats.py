"""Serves a profiled workload again, to see how stable its labels are.

A request's rounds may depend on which other requests share its batches. Each repeat serves the same
requests in another order, and so in other batches; mixed batching serves them in the first order,
but with prompts and outputs in the same rounds, as DWISE does.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dwise_predict.engines.sglang_engine.fleet import HERE, Fleet
from dwise_predict.evaluation.stability import Stability, measure_stability
from dwise_predict.files import write_bytes
from dwise_predict.profile import Batching, read_profile
from dwise_predict.profile.records import RUN_FILE
from dwise_predict.profiling import profile_workload
from dwise_predict.progress import SILENT, Progress
from dwise_predict.recipe import Recipe
from dwise_predict.run_folder import RunFolder
from dwise_predict.workload.schema import Request


def repeat_order(requests: Sequence[Request], number: int, seed: int) -> list[Request]:
    """The requests in the order of repeat ``number``, from 1; the first is the order given."""
    if number == 1:
        return list(requests)
    order = np.random.default_rng([seed, number]).permutation(len(requests))
    return [requests[row] for row in order]


def repeats_missing(recipe: Recipe, folder: RunFolder) -> bool:
    """Whether a repeat that the recipe asks for, or the mixed serving, is not finished."""
    return any(not _finished(place) for place in _places(recipe, folder))


def serve_repeats(
    requests: Sequence[Request],
    recipe: Recipe,
    folder: RunFolder,
    progress: Progress = SILENT,
    fleet: Fleet = HERE,
) -> None:
    """Serve the repeats of a run's profile that are not finished; each continues by itself.

    Raises:
        DwiseError: as :func:`~dwise_predict.profiling.profile_workload`.
    """
    for place, (number, batching) in _places(recipe, folder).items():
        if _finished(place):
            continue
        how = "in the first order" if number == 1 else f"in order {number}"
        progress.note(f"{place.relative_to(folder.path)}: again {how}, {batching} batching")
        ordered = repeat_order(requests, number, recipe.seed)
        profile_workload(ordered, recipe, place, progress, batching=batching, fleet=fleet)


def _places(recipe: Recipe, folder: RunFolder) -> dict[Path, tuple[int, Batching]]:
    """Folder, order and batching of each serving after the profile."""
    numbers = range(2, recipe.profile.repeats + 1)
    places: dict[Path, tuple[int, Batching]] = {folder.repeat(n): (n, "stock") for n in numbers}
    if recipe.profile.compare_batching:
        places[folder.mixed] = (1, "mixed")
    return places


def _finished(place: Path) -> bool:
    return (place / RUN_FILE).is_file()


def record_stability(folder: RunFolder) -> Stability | None:
    """Compare the profiles of a run and write ``stability.json``; None where there is one only.

    A file that says the same already is left alone.

    Raises:
        ProfileError: a profile is damaged.
    """
    places = [folder.profile, *folder.repeats]
    if _finished(folder.mixed):
        places.append(folder.mixed)
    if len(places) == 1:
        return None
    stability = measure_stability(
        {place.relative_to(folder.path).as_posix(): read_profile(place) for place in places}
    )
    content = (stability.model_dump_json(indent=1) + "\n").encode()
    if not folder.stability.is_file() or folder.stability.read_bytes() != content:
        write_bytes(folder.stability, content)
    return stability
