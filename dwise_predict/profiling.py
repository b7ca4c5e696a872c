"""Serves a workload first come, first served and labels every request's denoising rounds.

With the built-in engine the workload is cut into shards. Each is served from an empty engine and
written in one step, so that a killed run, started again, serves the remaining shards in exactly the
batches that an undisturbed run would have formed, and ends with the same labels and hidden means.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa

from dwise_predict.engines.loading import load_engine
from dwise_predict.engines.protocol import Engine, EngineRequest, ServeResult
from dwise_predict.engines.recording import engine_request, request_row
from dwise_predict.engines.sglang_engine.fleet import HERE, Fleet
from dwise_predict.errors import EngineError, WorkloadError
from dwise_predict.predictors.features import token_bins
from dwise_predict.profile import (
    REQUESTS_SCHEMA,
    ROUNDS_SCHEMA,
    Batching,
    Campaign,
    Records,
    WorkloadId,
    open_profile,
    utc_now,
)
from dwise_predict.progress import SILENT, Progress
from dwise_predict.recipe import Recipe
from dwise_predict.scheduling import (
    ResidencyLimits,
    RoundScheduler,
    build_scheduler,
    fcfs_scheduler,
)
from dwise_predict.scheduling.policies import Fcfs
from dwise_predict.workload.schema import Request, workload_sha256


def profile_workload(
    requests: Sequence[Request],
    recipe: Recipe,
    out_dir: Path,
    progress: Progress = SILENT,
    *,
    batching: Batching = "stock",
    fleet: Fleet = HERE,
) -> Path:
    """Serve ``requests`` with the recipe's engine and write the profile folder ``out_dir``.

    Continues by itself when ``out_dir`` holds what was served earlier of the same workload, recipe
    and model; returns at once when the profile is finished.

    Args:
        requests: the workload, in the order in which it is served.
        recipe: what serves it.
        out_dir: the profile folder.
        progress: shows the requests served.
        batching: which rounds first come, first served forms: "stock" prefills before it denoises,
            as SGLang does; "mixed" fills rounds with both, as DWISE does.
        fleet: running servers to use instead of an engine of one's own (SGLang only).

    Returns:
        ``out_dir``.

    Raises:
        WorkloadError: no requests, or two with the same id.
        EngineError: the model cannot be served, or prompts exceed its context (they are named).
        ProfileError: ``out_dir`` belongs to something else, holds a corrupted shard or cannot
            be written (full disk included); what is finished is kept.
    """
    _check(requests)
    if recipe.engine.name == "sglang":
        from dwise_predict.engines.sglang_engine.driver import profile_with_sglang

        return profile_with_sglang(requests, recipe, out_dir, progress, batching, fleet)
    if fleet != HERE:
        raise EngineError(
            "--server, --recording and --in-flight are about running servers, which are SGLang's: "
            "leave them out, or --set engine.name=sglang"
        )
    return _profile_with_torch(requests, recipe, out_dir, progress, batching)


def _profile_with_torch(
    requests: Sequence[Request],
    recipe: Recipe,
    out_dir: Path,
    progress: Progress,
    batching: Batching,
) -> Path:
    engine = load_engine(recipe)
    queue = [engine_request(request, engine, recipe.decoding.budget_tokens) for request in requests]
    engine.check(queue)
    campaign = Campaign(
        fingerprint=engine.fingerprint,
        workload=WorkloadId(
            name=recipe.workload.name, sha256=workload_sha256(requests), requests=len(requests)
        ),
        seed=recipe.seed,
        engine=engine.settings,
        batching=batching,
        shard_requests=recipe.profile.shard_requests,
        library_version=version("dwise-predict"),
        started_at=utc_now(),
    )
    with open_profile(out_dir, campaign) as writer:
        missing = writer.missing()
        with progress.task("profile", total=len(requests)) as advance:
            advance(len(requests) - sum(len(campaign.shard_rows(shard)) for shard in missing))
            for shard in missing:
                rows = campaign.shard_rows(shard)
                asked = queue[rows.start : rows.stop]
                result = engine.serve(asked, _scheduler(recipe, batching), lambda _: advance(1))
                served = requests[rows.start : rows.stop]
                writer.write_shard(shard, _records(shard, served, asked, result, engine))
        writer.finish()
    return out_dir


def _scheduler(recipe: Recipe, batching: Batching) -> RoundScheduler:
    """First come, first served, with as many residents as slots."""
    slots = recipe.engine.slots
    if batching == "stock":
        return fcfs_scheduler(slots)
    limits = ResidencyLimits(slots, recipe.decoding.block_size, multiplier=1)
    return build_scheduler(Fcfs(), "mixed_phase", limits)


def _check(requests: Sequence[Request]) -> None:
    if not requests:
        raise WorkloadError("the workload is empty: nothing to profile")
    counts = Counter(request.request_id for request in requests)
    if twice := [request_id for request_id, count in counts.items() if count > 1]:
        raise WorkloadError(
            f"request ids must be unique; given twice: {', '.join(map(repr, twice[:5]))}"
        )


def _records(
    shard: int,
    requests: Sequence[Request],
    queue: Sequence[EngineRequest],
    result: ServeResult,
    engine: Engine,
) -> Records:
    rows = [
        {
            **request_row(request, asked, served, engine),
            "token_bins": token_bins(asked.prompt_ids),
            "shard": shard,
        }
        for request, asked, served in zip(requests, queue, result.requests, strict=True)
    ]
    rounds = [{"shard": shard, **asdict(record)} for record in result.rounds]
    return Records(
        requests=pa.Table.from_pylist(rows, schema=REQUESTS_SCHEMA),
        rounds=pa.Table.from_pylist(rounds, schema=ROUNDS_SCHEMA),
        hidden=np.stack([served.hidden_mean for served in result.requests]),
    )
