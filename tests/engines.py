"""Engines and schedulers that several test modules use."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

from dwise_predict.engines.torch_engine.engine import TorchEngine
from dwise_predict.recipe import DecodingSettings, EngineSettings, ModelSettings
from dwise_predict.scheduling import Arrived, Event, Finished, Plan

ALGORITHMS: dict[str, dict[str, float]] = {
    "LowConfidence": {"threshold": 0.5},
    "JointThreshold": {
        "threshold": 0.4,
        "edit_threshold": 0.3,
        "max_post_edit_steps": 5,
        "penalty_lambda": 0.5,
    },
}


def load_engine(
    folder: Path, algorithm: str = "LowConfidence", slots: int = 8, block_size: int = 4
) -> TorchEngine:
    return TorchEngine.load(
        ModelSettings(repo=str(folder), architecture="SDARForCausalLM"),
        EngineSettings(slots=slots, device="cpu", threads=1),
        DecodingSettings(
            algorithm=algorithm,  # type: ignore[arg-type]
            parameters=ALGORITHMS[algorithm],
            block_size=block_size,
        ),
    )


class ShufflingScheduler:
    """Keeps more residents than slots and runs a random choice of them in every round.

    Phases mix and residents are paused in the middle of prompts and blocks all the time.
    """

    def __init__(self, slots: int, max_residents: int, seed: int) -> None:
        self._slots, self._max_residents = slots, max_residents
        self._random = random.Random(seed)
        self._waiting: list[str] = []
        self._residents: list[str] = []

    def observe(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, Arrived):
                self._waiting.append(event.request_id)
            elif isinstance(event, Finished):
                self._residents.remove(event.request_id)

    def plan(self, now: float) -> Plan:
        admit = []
        while self._waiting and len(self._residents) < self._max_residents:
            admit.append(self._waiting.pop(self._random.randrange(len(self._waiting))))
            self._residents.append(admit[-1])
        count = min(len(self._residents), self._random.randint(1, self._slots))
        run = self._random.sample(self._residents, count)
        pause = [i for i in self._residents if i not in run]
        return Plan(admit=tuple(admit), run=tuple(run), pause=tuple(pause))
