"""The requests of a profile, with exactly the rounds that were recorded."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa

from dwise_predict.errors import SimulationError
from dwise_predict.profile import Profile
from dwise_predict.simulation.limits import MAX_REQUESTS
from dwise_predict.simulation.sources.source import FACTS_SCHEMA, Source
from dwise_predict.simulation.workload import IntArray
from dwise_predict.validation import shortened

Split = Literal["eval", "train", "all"]

_CHECKED = (
    "request_id",
    "prompt_tokens",
    "budget_tokens",
    "output_tokens",
    "rounds",
    "rounds_per_block",
)


def profile_source(profile: Profile, split: Split = "eval") -> Source:
    """Requests of ``split``, in the order in which they were profiled.

    Predictors saw the training requests, so that only the others show what they are worth.
    Raises SimulationError when there are none, or they are such as no engine serves.
    """
    rows = _rows(profile, split)
    _check(profile.requests)
    return Source(
        name=f"{len(rows)} {'' if split == 'all' else split + ' '}requests of a profile of "
        f"{profile.run.fingerprint.model}",
        block_size=profile.run.fingerprint.block_size,
        facts=profile.requests.select(FACTS_SCHEMA.names).take(rows).cast(FACTS_SCHEMA),
        profile=profile,
        rows=rows,
    )


def _check(requests: pa.Table) -> None:
    """Files that belong together may still hold what cannot be (hashes say nothing of that)."""
    if requests.num_rows > MAX_REQUESTS:
        raise SimulationError(
            f"the profile has {requests.num_rows:,} requests; at most {MAX_REQUESTS:,} can be "
            "simulated"
        )
    seen: set[str] = set()
    for row in zip(*(requests[name].to_pylist() for name in _CHECKED), strict=True):
        request_id, prompt, budget, output, rounds, blocks = row
        if request_id is None or request_id in seen:
            raise _damaged(f"two requests are called {request_id!r}")
        seen.add(request_id)
        if None in row or None in blocks:
            raise _damaged(f"request {request_id!r} lacks a value")
        if prompt < 0 or budget < 1 or output < 0:
            raise _damaged(
                f"request {request_id!r} has {prompt} prompt, {output} output and {budget} budget "
                "tokens"
            )
        if not blocks or min(blocks) < 1 or sum(blocks) != rounds:
            raise _damaged(
                f"request {request_id!r} has {rounds} rounds, by block {shortened(blocks)}"
            )


def _damaged(finding: str) -> SimulationError:
    return SimulationError(f"the profile is damaged: {finding}; profile again")


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
