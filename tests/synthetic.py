"""Synthetic profiles with the traits of real ones: categories, a heavy tail, telling hidden states.

Rounds span 2..280. Within a category they follow a latent difficulty that prompt features barely
show and hidden states do, through a nonlinear random map with noise; some open-ended answers loop
up to the budget. Everything is drawn from one seed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa

from dwise_predict.files import write_folder
from dwise_predict.fingerprint import Fingerprint
from dwise_predict.predictors.examples import Examples
from dwise_predict.predictors.features import token_bins
from dwise_predict.profile.encoding import digest, hidden_bytes, table_bytes
from dwise_predict.profile.records import (
    HIDDEN_FILE,
    REQUESTS_FILE,
    REQUESTS_SCHEMA,
    ROUNDS_FILE,
    ROUNDS_SCHEMA,
    RUN_FILE,
    Counts,
    RunInfo,
    WorkloadId,
)
from dwise_predict.recipe import EngineSettings

# median rounds, spread of log rounds, median prompt tokens, share that loops up to the budget
CATEGORIES = {
    "chat": (70.0, 0.7, 40, 0.10),
    "instruction": (60.0, 0.7, 60, 0.08),
    "code": (35.0, 0.6, 120, 0.03),
    "math": (40.0, 0.5, 70, 0.02),
    "multilingual_math": (45.0, 0.5, 80, 0.02),
    "multiple_choice": (8.0, 0.6, 90, 0.0),
    "hard_multiple_choice": (4.0, 0.5, 110, 0.0),
    "long_context": (12.0, 0.4, 1500, 0.0),
}
MAX_ROUNDS = 280
_LATENTS = 12
# The same projection in every profile, as the target model is the same.
_WORLD = 1234
_NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


def synthetic_examples(
    n: int, seed: int, hidden: int = 64, noise: float = 0.35, abort_share: float = 0.0
) -> Examples:
    """Draw ``n`` requests with hidden means of width ``hidden``; all prompts are distinct."""
    world, rng = np.random.default_rng(_WORLD), np.random.default_rng(seed)
    names = list(CATEGORIES)
    kind = rng.integers(len(names), size=n)
    median, spread, tokens, loops = np.array(list(CATEGORIES.values())).T
    difficulty = rng.normal(size=n)
    looping = rng.random(n) < loops[kind] * np.exp(difficulty) / np.exp(0.5)
    log_rounds = np.log(median[kind]) + spread[kind] * difficulty + noise * rng.normal(size=n)
    rounds = np.where(looping, MAX_ROUNDS - rng.integers(0, 25, n), np.rint(np.exp(log_rounds)))
    rounds = np.clip(rounds, 2, MAX_ROUNDS).astype(np.int64)
    aborted = rng.random(n) < abort_share
    rounds = np.where(aborted, np.maximum(1, rounds // 2), rounds)
    latent = np.column_stack(
        [np.eye(len(names))[kind], difficulty, difficulty * spread[kind], rng.normal(size=(n, 2))]
    )
    mix = world.normal(size=(_LATENTS, hidden)) / np.sqrt(_LATENTS)
    states = np.tanh(latent @ mix * 1.5) + 0.3 * rng.normal(size=(n, hidden))
    prompt_tokens = np.rint(tokens[kind] * np.exp(0.4 * rng.normal(size=n))).astype(np.int64) + 4
    words = np.rint(prompt_tokens * rng.uniform(0.5, 0.8, n)).astype(np.int64)
    return Examples(
        prompt=np.array([hashlib.sha256(f"{seed}/{i}".encode()).hexdigest() for i in range(n)]),
        category=np.array(names)[kind],
        words=words,
        newlines=rng.poisson(1 + prompt_tokens / 60),
        prompt_tokens=prompt_tokens,
        token_bins=np.full(n, None),
        budget_tokens=np.full(n, 256),
        hidden=states.astype(np.float16).astype(np.float32),
        rounds=rounds,
        finish_reason=np.where(aborted, "abort", np.where(rounds > 250, "budget", "eos")),
    )


def with_tokens(examples: Examples, seed: int) -> Examples:
    """The same requests with prompts whose tokens tell of the rounds what sizes do not."""
    rng = np.random.default_rng(seed)
    bins = np.empty(len(examples), dtype=np.object_)
    for i, rounds in enumerate(examples.rounds.tolist()):
        telling = np.flatnonzero(np.linspace(0, 6, 60) < np.log(rounds) + 0.3 * rng.normal())
        bins[i] = np.array(token_bins([*telling, *rng.integers(100_000, size=20)]), np.uint16)
    return replace(examples, token_bins=bins)


def write_profile(
    folder: Path,
    train: Examples,
    evaluation: Examples,
    model: str = "acme/dllm-mini",
    request_ids: Sequence[str] = (),
) -> Path:
    """Write a finished profile folder of these requests, as an engine would."""
    both = [(train, "train"), (evaluation, "eval")]
    rows: list[dict[str, object]] = [
        _request_row(examples, i, f"{split}-{i}", split)
        for examples, split in both
        for i in range(len(examples))
    ]
    for row, request_id in zip(rows, request_ids, strict=False):
        row["request_id"] = request_id
    rounds = pa.Table.from_pylist(
        [
            {**{f.name: 0 for f in ROUNDS_SCHEMA}, "index": i, "wall_ms": 1, "slots": 1}
            for i in range(4)
        ],
        schema=ROUNDS_SCHEMA,
    )
    hidden = np.concatenate([train.hidden, evaluation.hidden]).astype(np.float16)
    contents = {
        REQUESTS_FILE: table_bytes(pa.Table.from_pylist(rows, schema=REQUESTS_SCHEMA)),
        ROUNDS_FILE: table_bytes(rounds),
        HIDDEN_FILE: hidden_bytes(hidden),
    }
    run = RunInfo(
        fingerprint=fingerprint(hidden.shape[1], model),
        workload=WorkloadId(name="synthetic", sha256="0" * 64, requests=len(rows)),
        seed=0,
        engine=EngineSettings(device="cpu", threads=1),
        shard_requests=256,
        library_version="0.1.0",
        started_at=_NOON,
        finished_at=_NOON,
        counts=Counts(requests=len(rows), rounds=rounds.num_rows),
        files={name: digest(content) for name, content in contents.items()},
    )
    write_folder(folder, {**contents, RUN_FILE: run.model_dump_json().encode()})
    return folder


def replace_table(folder: Path, name: str, table: pa.Table) -> None:
    """Put another table into a profile folder and make its counts and hashes right again."""
    content = table_bytes(table)
    (folder / name).write_bytes(content)
    run = RunInfo.model_validate_json((folder / RUN_FILE).read_bytes())
    field = "requests" if name == REQUESTS_FILE else "rounds"
    changed = {
        "counts": run.counts.model_copy(update={field: table.num_rows}),
        "files": {**run.files, name: digest(content)},
    }
    (folder / RUN_FILE).write_text(run.model_copy(update=changed).model_dump_json())


def fingerprint(hidden_size: int, model: str = "acme/dllm-mini") -> Fingerprint:
    """A fingerprint of a made-up model."""
    return Fingerprint(
        model=model,
        revision="0123abc",
        architecture="SDARForCausalLM",
        hidden_size=hidden_size,
        algorithm="LowConfidence",
        algorithm_parameters={"threshold": 0.9},
        block_size=16,
        fdfo=True,
        budget_tokens=256,
        engine="torch",
        engine_version="2.13.0",
        dtype="float32",
    )


def _request_row(examples: Examples, i: int, request_id: str, split: str) -> dict[str, object]:
    rounds = int(examples.rounds[i])
    return {
        "request_id": request_id,
        "category": str(examples.category[i]),
        "dataset": "acme/prompts",
        "split": split,
        "prompt_sha256": str(examples.prompt[i]),
        "words": int(examples.words[i]),
        "newlines": int(examples.newlines[i]),
        "prompt_tokens": int(examples.prompt_tokens[i]),
        "token_bins": examples.token_bins[i],
        "prompt_blocks": int(examples.prompt_tokens[i]) // 16,
        "budget_tokens": int(examples.budget_tokens[i]),
        "output_tokens": min(rounds, 256),
        "output_blocks": 1,
        "rounds": rounds,
        "rounds_per_block": [rounds],
        "first_block_masked": 16,
        "finish_reason": str(examples.finish_reason[i]),
        "answer_correct": None,
        "arrival_s": 0.0,
        "admitted_s": 0.0,
        "first_round_s": 0.1,
        "first_block_s": 0.2,
        "finished_s": 0.3,
        "shard": 0,
    }
