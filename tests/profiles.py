"""Recipes, workloads and profiles that several test modules use."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path

from dwise_predict.profiling import profile_workload
from dwise_predict.progress import Advance
from dwise_predict.recipe import (
    DecodingSettings,
    EngineSettings,
    ModelSettings,
    ProfileSettings,
    Recipe,
    WorkloadSettings,
)
from dwise_predict.workload.schema import Message, Request


def small_recipe(checkpoint: Path, shard_requests: int = 4, slots: int = 3) -> Recipe:
    """Profiles the model of ``tests.checkpoints`` with a budget of 16 tokens."""
    return Recipe(
        name="small",
        model=ModelSettings(repo=str(checkpoint), architecture="SDARForCausalLM"),
        engine=EngineSettings(slots=slots, device="cpu", threads=1),
        decoding=DecodingSettings(parameters={"threshold": 0.5}, block_size=4, budget_tokens=16),
        workload=WorkloadSettings(name="builtin"),
        profile=ProfileSettings(shard_requests=shard_requests),
    )


def small_workload(count: int, seed: int = 0) -> list[Request]:
    """Prompts of 1 to 8 words in two categories; the math ones have an answer."""
    rng = random.Random(seed)
    requests = []
    for i in range(count):
        words = " ".join(rng.choices(["one", "two", "three", "four"], k=rng.randint(1, 8)))
        requests.append(
            Request(
                request_id=f"r{i:03}",
                messages=(Message(role="user", content=f"{words}\n{i}"),),
                category=("chat", "math")[i % 2],
                split=("train", "eval", None)[i % 3],
                max_new_tokens=8 if i % 5 == 0 else None,
                answer="7" if i % 2 else None,
            )
        )
    return requests


class AnnouncingProgress:
    """Sets an event when serving begins, after the model was loaded."""

    def __init__(self, serving: Event) -> None:
        self._serving = serving

    @contextmanager
    def task(self, label: str, total: float) -> Iterator[Advance]:
        self._serving.set()
        yield lambda steps: None

    def note(self, message: str) -> None:
        return


def profile_and_announce(
    serving: Event, requests: list[Request], recipe: Recipe, folder: Path
) -> None:
    """Profile in a child process that is about to be killed."""
    profile_workload(requests, recipe, folder, AnnouncingProgress(serving))
