"""The requests of a profile, with exactly the rounds that were recorded."""

from __future__ import annotations

from typing import Literal

import numpy as np

from dwise_predict.errors import SimulationError
from dwise_predict.profile import Profile
from dwise_predict.simulation.limits import MAX_REQUESTS
from dwise_predict.simulation.sources.source import FACTS_SCHEMA, Source
from dwise_predict.simulation.workload import IntArray

Split = Literal["eval", "train", "all"]


def profile_source(profile: Profile, split: Split = "eval") -> Source:
    """Requests of ``split``, in the order in which they were profiled.

    Predictors saw the training requests, so that only the others show what they are worth.
    Raises SimulationError when there are none, or too many.
    """
    rows = _rows(profile, split)
    if profile.requests.num_rows > MAX_REQUESTS:
        raise SimulationError(
            f"the profile has {profile.requests.num_rows:,} requests; at most {MAX_REQUESTS:,} can "
            "be simulated"
        )
    return Source(
        name=f"{len(rows)} {'' if split == 'all' else split + ' '}requests of a profile of "
        f"{profile.run.fingerprint.model}",
        block_size=profile.run.fingerprint.block_size,
        facts=profile.requests.select(FACTS_SCHEMA.names).take(rows).cast(FACTS_SCHEMA),
        profile=profile,
        rows=rows,
    )


def _rows(profile: Profile, split: Split) -> IntArray:
    if split == "all":
        return np.arange(profile.requests.num_rows)
    marks = np.array(profile.requests["split"].to_pylist(), dtype=object)
    rows = np.flatnonzero(marks == split)
    if not len(rows):
        raise SimulationError(
            f"the profile has no request of the {split} split; take every request with --split all"
        )
    return rows
