"""A synthetic profile whose prompts say how long their answers are, and small encoders."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from dwise_predict.baselines import RecordedRounds
from dwise_predict.baselines.settings import (
    BaselineSettings,
    BucketSettings,
    EncoderSettings,
    LtrSettings,
    SsjfSettings,
    TrailSettings,
    TuningSettings,
)
from dwise_predict.profile import Profile, read_profile
from dwise_predict.workload.schema import Message, Request
from tests.encoders import write_encoder
from tests.synthetic import synthetic_examples, write_profile

NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
TRAIN, EVAL, HIDDEN = 96, 48, 8


@dataclass(frozen=True)
class Study:
    """A profile, its workload and recorded rounds."""

    profile: Profile
    requests: list[Request]
    rounds: RecordedRounds


def request(split: str, index: int, rounds: int) -> Request:
    """A prompt that says how many tens of output tokens (which are rounds) are wanted."""
    word = NUMBERS[min(rounds // 26, 9)]
    return Request(
        request_id=f"{split}-{index}",
        messages=(Message(role="user", content=f"tell me a {word} answer of fox {split}{index}"),),
        split=split,  # type: ignore[arg-type]
    )


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    sides, requests = [], []
    for split, n, seed in (("train", TRAIN, 1), ("eval", EVAL, 2)):
        examples = synthetic_examples(n, seed, HIDDEN)
        rng = np.random.default_rng(seed)
        rounds = np.clip(rng.integers(1, 256, n), 1, 256)
        own = [request(split, i, int(k)) for i, k in enumerate(rounds)]
        prompts = np.array([r.prompt_sha256 for r in own])
        sides.append(
            replace(examples, rounds=rounds, prompt=prompts, finish_reason=np.full(n, "eos"))
        )
        requests += own
    folder = write_profile(tmp_path_factory.mktemp("baselines") / "profile", sides[0], sides[1])
    profile = read_profile(folder)
    return Study(profile, requests, recorded(profile))


def recorded(profile: Profile) -> RecordedRounds:
    """Rounds that give one token each, with hidden states that tell what is left."""
    output = np.asarray(profile.requests["output_tokens"].to_numpy(), dtype=np.int64)
    committed = np.concatenate([np.arange(1, n + 1) for n in output])
    left = np.repeat(output, output) - committed
    rng = np.random.default_rng(5)
    means = rng.normal(size=(len(left), HIDDEN)) * 0.1
    means[:, 0] += left / 128 - 1
    return RecordedRounds(
        request_ids=tuple(profile.requests["request_id"].to_pylist()),
        counts=output,
        output_tokens=output,
        budget_tokens=np.asarray(profile.requests["budget_tokens"].to_numpy(), dtype=np.int64),
        committed=committed,
        means=means.astype(np.float16),
    )


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("encoders") / "bert")


@pytest.fixture(scope="session")
def settings(encoder: Path) -> BaselineSettings:
    """Small and quick, and enough to learn what the prompts say."""
    small = EncoderSettings(model=str(encoder), pooling="mean", max_tokens=32, frozen_layers=1)
    tuning = TuningSettings(epochs=25, batch_size=16, learning_rate=1e-2, decay="linear")
    buckets = BucketSettings(encoder=small, tuning=tuning)
    return BaselineSettings(
        ssjf=SsjfSettings(encoder=small, width=16, tuning=tuning, head=tuning),
        s3=buckets,
        ltr=LtrSettings(encoder=small, tuning=tuning),
        trail=TrailSettings(
            initial=buckets,
            width=32,
            tuning=TuningSettings(epochs=5, batch_size=32, learning_rate=1e-2, decay="cosine"),
        ),
    )
