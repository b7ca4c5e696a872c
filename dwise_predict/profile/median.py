"""Labels from several profiles of the same requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dwise_predict.errors import ProfileError
from dwise_predict.profile.reading import Profile


def median_profile(first: Profile, others: Sequence[Profile]) -> Profile:
    """``first`` with each training request replaced by its median repeat.

    The median repeat of a request is the one with the median of its rounds over the repeats in
    which it was served to its end: of an even number the lower of the two in the middle, of equal
    ones the earliest. Its whole row and hidden mean are taken, so that rounds, finish reason and
    hidden mean are those of one serving and rounds stay whole. A request that was aborted in every
    repeat, and every request that is not of the training split, stays as it is in ``first``.

    Raises:
        ProfileError: a profile is of other requests.
    """
    runs = [first, *(_aligned(first, other) for other in others)]
    n = first.requests.num_rows
    rounds = np.stack([run.requests["rounds"].to_numpy() for run in runs]).astype(np.int64)
    finished = np.stack([_column(run, "finish_reason") != "abort" for run in runs])
    chosen = _median_rows(rounds, finished)
    chosen[_column(first, "split") != "train"] = 0
    rows = chosen * n + np.arange(n)
    table = pa.concat_tables([run.requests for run in runs]).take(pa.array(rows)).combine_chunks()
    hidden = np.stack([run.hidden for run in runs])[chosen, np.arange(n)]
    return replace(first, requests=table, hidden=hidden)


def _median_rows(
    rounds: npt.NDArray[np.int64], finished: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """Which run holds the median of each column of ``[runs, n]``; 0 where none finished."""
    last = np.iinfo(np.int64).max
    ordered = np.sort(np.where(finished, rounds, last), axis=0)
    middle = np.maximum(finished.sum(axis=0) - 1, 0) // 2
    median = ordered[middle, np.arange(rounds.shape[1])]
    chosen: npt.NDArray[np.int64] = ((rounds == median) & finished).argmax(axis=0)
    return chosen


def _aligned(first: Profile, other: Profile) -> Profile:
    """``other`` with its requests in the order of ``first``."""
    row_of = {name: row for row, name in enumerate(_column(other, "request_id").tolist())}
    wanted = _column(first, "request_id").tolist()
    if row_of.keys() != set(wanted):
        raise ProfileError("the repeats of a profile are not of the same requests")
    rows = np.array([row_of[name] for name in wanted], dtype=np.int64)
    return replace(other, requests=other.requests.take(pa.array(rows)), hidden=other.hidden[rows])


def _column(profile: Profile, name: str) -> npt.NDArray[np.object_]:
    return np.array(profile.requests[name].to_pylist(), dtype=np.object_)
