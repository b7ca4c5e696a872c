"""Hidden means of every denoising round, which profiles hold of the first one alone.

The built-in engine serves the profiled workload once more, first come, first served, shard by
shard; a run that was killed goes on at the shard where it stopped. A recording is a folder with one
safetensors file a shard: ``means`` float16 [rounds, hidden], ``committed`` int32 [rounds] (output
tokens after each round), and by request ``counts`` (denoising rounds) and ``output_tokens``, both
int32. It takes hidden size times two bytes a round: 10 MB for the 19,000 rounds of the embedded
model's default run, 3 GB for 2,048 requests of 180 rounds at hidden size 4,096.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from dwise_predict.baselines.lengths import FloatArray, IntArray
from dwise_predict.engines.loading import load_engine
from dwise_predict.engines.protocol import Engine, Refinement, RoundHidden, ServeResult
from dwise_predict.engines.recording import engine_request
from dwise_predict.errors import BaselineError
from dwise_predict.files import locked, make_folder, write_bytes
from dwise_predict.fingerprint import fingerprint_differences
from dwise_predict.profile import Profile
from dwise_predict.progress import SILENT, Progress
from dwise_predict.recipe import Recipe
from dwise_predict.scheduling import fcfs_scheduler
from dwise_predict.workload.schema import Request

_KEYS = ("means", "committed", "counts", "output_tokens")


@dataclass(frozen=True)
class RecordedRounds:
    """R denoising rounds of N requests, request by request.

    ``means`` are float16 [R, hidden]; ``committed`` int64 [R] counts output tokens after each
    round; ``counts``, ``output_tokens`` and ``budget_tokens`` are int64 [N].
    """

    request_ids: tuple[str, ...]
    counts: IntArray
    output_tokens: IntArray
    budget_tokens: IntArray
    committed: IntArray
    means: npt.NDArray[np.float16]

    @cached_property
    def starts(self) -> IntArray:
        """First round of each request, and R at the end, int64 [N + 1]."""
        return np.concatenate([[0], np.cumsum(self.counts)])

    @property
    def left(self) -> IntArray:
        """Output tokens still to come after each round, int64 [R]."""
        return np.repeat(self.output_tokens, self.counts) - self.committed

    @property
    def room(self) -> FloatArray:
        """Most output tokens that could still come before each round, float64 [R]."""
        before = np.roll(self.committed, 1)
        before[self.starts[:-1]] = 0
        return (np.repeat(self.budget_tokens, self.counts) - before).astype(np.float64)

    def of(self, request_ids: Sequence[str]) -> RecordedRounds:
        """The rounds of some requests, in their order; BaselineError when one is missing."""
        row_of = {request_id: row for row, request_id in enumerate(self.request_ids)}
        if absent := [i for i in request_ids if i not in row_of]:
            raise BaselineError(
                f"the rounds of {len(absent)} requests were not recorded, {absent[0]!r} among "
                "them: record the whole workload"
            )
        rows = np.array([row_of[i] for i in request_ids], dtype=np.int64)
        spans = [np.arange(self.starts[row], self.starts[row + 1]) for row in rows]
        taken = np.concatenate(spans) if spans else np.empty(0, np.int64)
        return RecordedRounds(
            tuple(request_ids),
            self.counts[rows],
            self.output_tokens[rows],
            self.budget_tokens[rows],
            self.committed[taken],
            self.means[taken],
        )


def record_rounds(
    profile: Profile,
    requests: Sequence[Request],
    recipe: Recipe,
    out: Path,
    progress: Progress = SILENT,
) -> RecordedRounds:
    """Serve the profiled workload again and keep every round's hidden means in ``out``.

    Returns at once when the recording is complete.

    Args:
        profile: of ``requests``, made with the built-in engine.
        requests: in the order of the profile.
        recipe: of the profile.
        out: folder of the recording.
        progress: told about requests.

    Raises:
        BaselineError: the workload or the engine is another than the profile's, or ``out`` holds
            something else.
        EngineError: the engine cannot be loaded.
    """
    ids = profile.requests["request_id"].to_pylist()
    if [request.request_id for request in requests] != ids:
        raise BaselineError(
            "the workload holds other requests than the profile, or in another order: give the "
            "workload.jsonl that was profiled"
        )
    campaign = profile.run
    missing = [s for s in range(campaign.shards) if not _path(out, s).is_file()]
    make_folder(out)
    with (
        locked(out, BaselineError(f"another process is writing {out}; wait for it")),
        progress.task("recording every round", len(requests)) as advance,
    ):
        advance(len(requests) - sum(len(campaign.shard_rows(shard)) for shard in missing))
        engine = _engine(profile, recipe) if missing else None
        for shard in missing:
            assert engine is not None
            rows = campaign.shard_rows(shard)
            asked = [
                engine_request(request, engine, recipe.decoding.budget_tokens)
                for request in requests[rows.start : rows.stop]
            ]
            keep = _Keep()
            served = engine.serve(
                asked, fcfs_scheduler(recipe.engine.slots), lambda _: advance(1), watch=keep
            )
            write_bytes(_path(out, shard), _shard(keep, served, _profile_id(profile)))
    return read_rounds(profile, out)


def read_rounds(profile: Profile, folder: Path) -> RecordedRounds:
    """A complete recording of ``profile``; BaselineError when it is none or damaged."""
    shards = [
        _read_shard(_path(folder, shard), profile, len(profile.run.shard_rows(shard)))
        for shard in range(profile.run.shards)
    ]
    columns = {key: np.concatenate([shard[key] for shard in shards]) for key in _KEYS}
    return RecordedRounds(
        request_ids=tuple(profile.requests["request_id"].to_pylist()),
        counts=columns["counts"].astype(np.int64),
        output_tokens=columns["output_tokens"].astype(np.int64),
        budget_tokens=np.asarray(profile.requests["budget_tokens"].to_numpy(), dtype=np.int64),
        committed=columns["committed"].astype(np.int64),
        means=columns["means"],
    )


class _Keep:
    """A watch that keeps what it sees of denoising rounds."""

    def __init__(self) -> None:
        self.means: dict[str, list[npt.NDArray[np.float16]]] = {}
        self.before: dict[str, list[int]] = {}

    def __call__(self, seen: RoundHidden) -> Mapping[str, Refinement]:
        for i, request in enumerate(seen.requests):
            if not seen.prefilling[i]:
                self.means.setdefault(request.request_id, []).append(seen.means[i].copy())
                self.before.setdefault(request.request_id, []).append(seen.output_tokens[i])
        return {}


def _engine(profile: Profile, recipe: Recipe) -> Engine:
    if recipe.engine.name != "torch":
        raise BaselineError(
            "every round's hidden states are recorded with the built-in engine only "
            "(engine.name=torch): leave TRAIL out for other engines"
        )
    engine = load_engine(recipe)
    if differences := fingerprint_differences(profile.run.fingerprint, engine.fingerprint):
        raise BaselineError(
            f"the recipe serves another model than was profiled ({'; '.join(differences)})"
        )
    return engine


def _shard(keep: _Keep, served: ServeResult, profile_id: str) -> bytes:
    committed, counts = [], []
    for request in served.requests:
        before = keep.before[request.request_id]
        committed += [*before[1:], len(request.output_ids)]
        counts.append(len(before))
    tensors: dict[str, npt.NDArray[np.generic]] = {
        "means": np.stack([m for r in served.requests for m in keep.means[r.request_id]]),
        "committed": np.array(committed, np.int32),
        "counts": np.array(counts, np.int32),
        "output_tokens": np.array([len(r.output_ids) for r in served.requests], np.int32),
    }
    return save(tensors, metadata={"profile": profile_id})


def _read_shard(path: Path, profile: Profile, requests: int) -> dict[str, npt.NDArray[np.generic]]:
    try:
        with safe_open(path, framework="numpy") as file:
            owner = (file.metadata() or {}).get("profile")
            shard = {key: file.get_tensor(key) for key in _KEYS}
    except (OSError, SafetensorError) as error:
        raise BaselineError(f"{path} is missing or damaged ({error}); record again") from error
    if owner != _profile_id(profile):
        raise BaselineError(f"{path} was recorded for another profile; choose another folder")
    hidden, counts = profile.run.fingerprint.hidden_size, shard["counts"]
    rounds = int(counts.sum()) if counts.dtype == np.int32 else -1
    shapes = {
        "means": (np.float16, (rounds, hidden)),
        "committed": (np.int32, (rounds,)),
        "counts": (np.int32, (requests,)),
        "output_tokens": (np.int32, (requests,)),
    }
    for key, (dtype, shape) in shapes.items():
        if shard[key].dtype != dtype or shard[key].shape != shape:
            raise BaselineError(f"{path} is damaged: {key} has another shape; record again")
    if counts.min() < 1 or not np.isfinite(shard["means"]).all():
        raise BaselineError(f"{path} is damaged: impossible numbers; record again")
    return shard


def _profile_id(profile: Profile) -> str:
    return profile.run.files["requests.parquet"]


def _path(folder: Path, shard: int) -> Path:
    return folder / f"rounds-{shard:05d}.safetensors"
