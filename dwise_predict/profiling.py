"""Serves a workload first come, first served and labels every request's denoising rounds.

The workload is cut into shards. Each is served from an empty engine and written in one step, so
that a killed run, started again, serves the remaining shards in exactly the batches that an
undisturbed run would have formed, and ends with the same labels and hidden means.
"""

from __future__ import annotations

import hashlib
import json
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
from dwise_predict.errors import WorkloadError
from dwise_predict.predictors.features import token_bins
from dwise_predict.profile import (
    REQUESTS_SCHEMA,
    ROUNDS_SCHEMA,
    Campaign,
    Records,
    WorkloadId,
    open_profile,
    utc_now,
)
from dwise_predict.progress import SILENT, Progress
from dwise_predict.recipe import Recipe
from dwise_predict.scheduling import fcfs_scheduler
from dwise_predict.workload.schema import Request


def profile_workload(
    requests: Sequence[Request], recipe: Recipe, out_dir: Path, progress: Progress = SILENT
) -> Path:
    """Serve ``requests`` with the recipe's engine and write the profile folder ``out_dir``.

    Continues by itself when ``out_dir`` holds shards of the same workload, recipe and model;
    returns at once when the profile is finished.

    Returns:
        ``out_dir``.

    Raises:
        WorkloadError: no requests, or two with the same id.
        EngineError: the model cannot be served, or prompts exceed its context (they are named).
        ProfileError: ``out_dir`` belongs to something else, holds a corrupted shard or cannot
            be written (full disk included); finished shards are kept.
    """
    _check(requests)
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
                result = engine.serve(
                    asked, fcfs_scheduler(recipe.engine.slots), lambda _: advance(1)
                )
                served = requests[rows.start : rows.stop]
                writer.write_shard(shard, _records(shard, served, asked, result, engine))
        writer.finish()
    return out_dir


def workload_sha256(requests: Sequence[Request]) -> str:
    """Digest of all requests with their order, prompts, budgets and answers."""
    lines = (json.dumps(request.model_dump(mode="json"), sort_keys=True) for request in requests)
    total = hashlib.sha256()
    for line in lines:
        total.update(line.encode() + b"\n")
    return total.hexdigest()


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
