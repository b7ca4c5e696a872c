"""Profiles of recordings that were made elsewhere: of a run folder's, a file's or live requests."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dwise_predict.assembly import (
    EVAL_SHARE,
    Joined,
    assemble_live_profile,
    assemble_profile,
    join_recordings,
    missing_requests,
)
from dwise_predict.engines.sglang_engine.answers import ANSWERS_FILE, correctness, read_answers
from dwise_predict.errors import ProfileError
from dwise_predict.profile.records import SHARDS_FOLDER
from dwise_predict.recipe import load_recipe
from dwise_predict.recording import campaign_tag
from dwise_predict.run_folder import RunFolder
from dwise_predict.workload.jsonl import read_jsonl
from dwise_predict.workload.schema import Request
from dwise_predict.workload.split import split_requests


@dataclass(frozen=True)
class Merged:
    """How many requests a merged profile has, and what its recordings held."""

    requests: int
    joined: Joined


def merge_live(recordings: Sequence[Path], out: Path, seed: int) -> Merged:
    """Make the profile ``out`` of live traffic; raises ProfileError as the assembly does."""
    return Merged(*assemble_live_profile(recordings, out, seed))


def merge_workload(
    recordings: Sequence[Path], workload: Path, out: Path, seed: int, again: str
) -> Merged:
    """Make the profile ``out`` of the requests of a run folder or a JSONL file.

    Of a run folder, recipe and received answers are used too. Of a file, requests without a split
    get one, and those without a budget have the one that most were recorded with.

    Raises:
        ProfileError: recordings differ, or requests are missing; ``again`` says how they are
            served.
        WorkloadError: the file cannot be read.
    """
    run = RunFolder(workload)
    if workload.is_dir():
        if not run.is_run:
            raise ProfileError(f"{workload} is no run folder: it has no recipe and workload")
        recipe = load_recipe(str(run.recipe.resolve()))
        requests, name, seed = read_jsonl(run.workload), recipe.workload.name, recipe.seed
        budget: int | None = recipe.decoding.budget_tokens
    else:
        requests, name, budget = read_jsonl(workload), "jsonl", None
    joined = join_recordings(recordings, campaign_tag(requests, "stock"))
    budget = budget or _usual_budget(joined, requests)
    if missing := missing_requests(joined, requests, budget):
        names = ", ".join(request.request_id for request in missing[:10])
        raise ProfileError(
            f"{len(missing)} of {len(requests)} requests are not recorded "
            f"({names}{', …' if len(missing) > 10 else ''}): have them served with\n  {again}"
        )
    answers = read_answers(run.profile / SHARDS_FOLDER / ANSWERS_FILE)
    assemble_profile(
        recordings,
        split_requests(requests, EVAL_SHARE, seed),
        out,
        workload=name,
        seed=seed,
        budget_tokens=budget,
        correct=correctness(requests, answers),
    )
    return Merged(len(requests), joined)


def _usual_budget(joined: Joined, requests: Sequence[Request]) -> int:
    """The budget of most requests without one of their own; of all, where each has one."""
    records = [joined.records[r.request_id] for r in requests if r.request_id in joined.records]
    open_ids = {request.request_id for request in requests if request.max_new_tokens is None}
    without = [
        joined.records[request_id] for request_id in open_ids if request_id in joined.records
    ]
    budgets = [record["budget_tokens"] for record in without or records]
    if not budgets:
        raise ProfileError("none of the requests is recorded: are these their recordings?")
    return int(statistics.mode(budgets))
