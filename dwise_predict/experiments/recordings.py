"""Hidden means that profiles do not hold: of every denoising round, and of the prompts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from dwise_predict.baselines import ROUNDS_FOLDER, RecordedRounds, read_rounds, record_rounds
from dwise_predict.engines.protocol import Refinement, RoundHidden
from dwise_predict.engines.recording import engine_request
from dwise_predict.errors import ExperimentError
from dwise_predict.experiments.base import base_of
from dwise_predict.experiments.engines import torch_engine
from dwise_predict.experiments.settings import Settings
from dwise_predict.files import write_bytes, write_text
from dwise_predict.scheduling import fcfs_scheduler

ROUNDS_MARK = "round_states.json"
"""Beside the folder of recorded rounds: it is complete."""
PROMPTS_FILE = "prompts.safetensors"
_KEY = "means"


def record_every_round(settings: Settings, seed: int) -> None:
    """Serve all requests of a seed again, and keep the hidden means of every denoising round."""
    base = base_of(settings, seed)
    folder = base.folder.path / ROUNDS_FOLDER
    rounds = record_rounds(base.profile, base.requests, settings.recipe_of(seed), folder)
    write_text(base.folder.path / ROUNDS_MARK, json.dumps({"rounds": len(rounds.means)}) + "\n")


def recorded_rounds(settings: Settings, seed: int) -> RecordedRounds:
    """What :func:`record_every_round` kept."""
    base = base_of(settings, seed)
    return read_rounds(base.profile, base.folder.path / ROUNDS_FOLDER)


def block_starts(rounds: RecordedRounds) -> npt.NDArray[np.bool_]:
    """Which rounds are the first of an output block, [R]: whenever the one before committed one."""
    first = np.zeros(len(rounds.committed), dtype=np.bool_)
    first[1:] = np.diff(rounds.committed, prepend=0)[:-1] > 0
    first[rounds.starts[:-1]] = True
    return first


def record_prompts(settings: Settings, seed: int) -> None:
    """Prefill all prompts of a seed, and keep the mean over each one's whole blocks.

    The file holds float16 [N, hidden] in the order of the profile, NaN for prompts shorter than a
    block, which have none.
    """
    base, recipe = base_of(settings, seed), settings.recipe_of(seed)
    engine = torch_engine(recipe)
    # One output token: prompts are all that matters.
    asked = [replace(engine_request(r, engine, 1), budget_tokens=1) for r in base.requests]
    keep = _KeepPrompts()
    engine.serve(asked, fcfs_scheduler(recipe.engine.slots), watch=keep)
    unknown = np.full(engine.fingerprint.hidden_size, np.nan, np.float16)
    means = [
        np.mean(keep.blocks[r.request_id], axis=0, dtype=np.float32)
        if r.request_id in keep.blocks
        else unknown
        for r in asked
    ]
    content = save({_KEY: np.stack(means).astype(np.float16)})
    write_bytes(base.folder.path / PROMPTS_FILE, content)


def recorded_prompts(settings: Settings, seed: int) -> npt.NDArray[np.float16]:
    """What :func:`record_prompts` kept. Raises ExperimentError when it is damaged."""
    base = base_of(settings, seed)
    path = base.folder.path / PROMPTS_FILE
    try:
        means: npt.NDArray[np.float16] = load_file(path)[_KEY]
    except (SafetensorError, KeyError) as error:
        raise _damaged(path) from error
    if means.dtype != np.float16 or means.ndim != 2 or len(means) != len(base.requests):
        raise _damaged(path)
    return means


def _damaged(path: Path) -> ExperimentError:
    return ExperimentError(f"{path} is damaged: delete it and run the same command again")


@dataclass
class _KeepPrompts:
    blocks: dict[str, list[npt.NDArray[np.float16]]] = field(default_factory=dict)

    def __call__(self, seen: RoundHidden) -> Mapping[str, Refinement]:
        for row, request in enumerate(seen.requests):
            if seen.prefilling[row]:
                self.blocks.setdefault(request.request_id, []).append(seen.means[row])
        return {}
