"""Profiling on a small random model: contract, odd workloads, killing and resuming."""

from __future__ import annotations

import math
import multiprocessing
import random
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from dwise_predict.engines.loading import load_engine
from dwise_predict.errors import EngineError, ProfileError, WorkloadError
from dwise_predict.profile import LABEL_COLUMNS, Profile, read_profile
from dwise_predict.profiling import profile_workload
from dwise_predict.recipe import Recipe
from dwise_predict.workload.answers import answer_correct
from dwise_predict.workload.schema import Message, Request
from tests.checkpoints import write_checkpoint
from tests.profiles import profile_and_announce, small_recipe, small_workload
from tests.reference import Reference


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "m"
    return write_checkpoint(folder, sharpness=2.0, eos_token_id=list(range(10, 22)))


@pytest.fixture(scope="module")
def recipe(checkpoint: Path) -> Recipe:
    return small_recipe(checkpoint)


def labels(profile: Profile) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = profile.requests.select(LABEL_COLUMNS).to_pylist()
    return rows


def assert_same_labels(a: Profile, b: Profile) -> None:
    assert labels(a) == labels(b)
    assert a.hidden.tobytes() == b.hidden.tobytes()
    columns = ["shard", "index", "slots", "prefill_slots", "kv_tokens", "residents", "waiting"]
    assert a.rounds.select(columns).equals(b.rounds.select(columns))


class RecordedProgress:
    """Notes how far each task came and how long it took."""

    def __init__(self) -> None:
        self.steps: dict[str, tuple[float, float]] = {}
        self.seconds: dict[str, float] = {}

    def task(self, label: str, total: float) -> RecordedTask:
        return RecordedTask(self, label, total)

    def note(self, message: str) -> None:
        return


class RecordedTask:
    def __init__(self, progress: RecordedProgress, label: str, total: float) -> None:
        self.progress, self.label, self.total, self.done = progress, label, total, 0.0

    def __enter__(self) -> RecordedTask:
        self.started = time.monotonic()
        return self

    def __exit__(self, *error: object) -> None:
        self.progress.steps[self.label] = (self.done, self.total)
        self.progress.seconds[self.label] = time.monotonic() - self.started

    def __call__(self, steps: float) -> None:
        self.done += steps


def test_labels_agree_with_the_reference(checkpoint: Path, recipe: Recipe, tmp_path: Path) -> None:
    requests = small_workload(10)
    progress = RecordedProgress()
    profile = read_profile(profile_workload(requests, recipe, tmp_path / "profile", progress))
    assert progress.steps == {"profile": (10, 10)}
    engine = load_engine(recipe)
    reference = Reference(checkpoint, "LowConfidence", {"threshold": 0.5})
    for i, (request, row) in enumerate(zip(requests, profile.requests.to_pylist(), strict=True)):
        prompt = engine.encode(request.messages)
        budget = request.max_new_tokens or 16
        decoded = reference.decode(prompt, budget)
        answer = request.answer and answer_correct(request.answer, engine.decode(decoded.output))
        expected = {
            "request_id": request.request_id,
            "category": request.category,
            "dataset": "own",
            "split": request.split,
            "prompt_sha256": request.prompt_sha256,
            "words": len(request.text.split()),
            "newlines": 1,
            "prompt_tokens": len(prompt),
            "token_bins": sorted(token % 1024 for token in prompt),
            "prompt_blocks": len(prompt) // 4,
            "budget_tokens": budget,
            "output_tokens": len(decoded.output),
            "output_blocks": math.ceil((len(prompt) + len(decoded.output)) / 4) - len(prompt) // 4,
            "rounds": sum(decoded.rounds),
            "rounds_per_block": decoded.rounds,
            "first_block_masked": 4 - len(prompt) % 4,
            "finish_reason": decoded.finish,
            "answer_correct": answer,
            "shard": i // 4,
        }
        assert {key: row[key] for key in expected} == expected
        np.testing.assert_allclose(profile.hidden[i], decoded.first_hidden.numpy(), atol=2e-3)
    fingerprint = profile.run.fingerprint
    assert (fingerprint.model, fingerprint.engine, fingerprint.budget_tokens) == (
        "local:m",
        "torch",
        16,
    )
    assert len(fingerprint.revision or "") == 64
    assert str(checkpoint) not in profile.run.model_dump_json()
    assert profile.run.engine.threads == 1


def test_a_finished_profile_is_left_alone(recipe: Recipe, tmp_path: Path) -> None:
    folder = tmp_path / "profile"
    requests = small_workload(3)
    profile_workload(requests, recipe, folder)
    before = {p.name: (p.stat().st_mtime_ns, p.read_bytes()) for p in folder.iterdir()}
    profile_workload(requests, recipe, folder)
    assert {p.name: (p.stat().st_mtime_ns, p.read_bytes()) for p in folder.iterdir()} == before


def test_another_workload_or_recipe_is_refused(recipe: Recipe, tmp_path: Path) -> None:
    folder = tmp_path / "profile"
    requests = small_workload(3)
    profile_workload(requests, recipe, folder)
    with pytest.raises(ProfileError, match=r"workload\.sha256: .* -> "):
        profile_workload(small_workload(3, seed=1), recipe, folder)
    slower = recipe.model_copy(
        update={"decoding": recipe.decoding.model_copy(update={"parameters": {"threshold": 0.6}})}
    )
    with pytest.raises(ProfileError, match=r"fingerprint\.algorithm_parameters"):
        profile_workload(requests, slower, folder)


def test_identical_prompts_take_identical_rounds(recipe: Recipe, tmp_path: Path) -> None:
    prompt = (Message(role="user", content="the same"),)
    requests = [Request(request_id=f"r{i}", messages=prompt) for i in range(9)]
    profile = read_profile(profile_workload(requests, recipe, tmp_path / "profile"))
    assert len(set(map(tuple, profile.requests["rounds_per_block"].to_pylist()))) == 1
    assert len(set(profile.requests["prompt_sha256"].to_pylist())) == 1


def test_two_requests_are_enough(recipe: Recipe, tmp_path: Path) -> None:
    profile = read_profile(profile_workload(small_workload(2), recipe, tmp_path / "profile"))
    assert profile.run.counts.requests == 2


def test_wrong_workloads_are_refused_before_anything_is_written(
    recipe: Recipe, tmp_path: Path
) -> None:
    folder = tmp_path / "profile"
    requests = small_workload(3)
    with pytest.raises(WorkloadError, match="empty"):
        profile_workload([], recipe, folder)
    with pytest.raises(WorkloadError, match="unique; given twice: 'r001'"):
        profile_workload([*requests, requests[1]], recipe, folder)
    long = Request(request_id="epic", messages=(Message(role="user", content="x" * 300),))
    with pytest.raises(EngineError, match=r"context of 256 tokens for 'epic' \(302 \+ 16\)"):
        profile_workload([*requests, long], recipe, folder)
    assert not folder.exists()


@pytest.mark.skipif(find_spec("sglang") is not None, reason="SGLang is installed here")
def test_an_engine_that_is_not_there_is_refused(recipe: Recipe, tmp_path: Path) -> None:
    sglang = recipe.model_copy(
        update={"engine": recipe.engine.model_copy(update={"name": "sglang"})}
    )
    with pytest.raises(EngineError, match="SGLang is not installed here"):
        profile_workload(small_workload(2), sglang, tmp_path / "profile")


def test_killing_it_at_random_moments_loses_and_doubles_nothing(
    recipe: Recipe, tmp_path: Path
) -> None:
    """Answers are long and shards many, so that most kills come in the middle of serving."""
    requests = small_workload(48)
    decoding = recipe.decoding.model_copy(update={"budget_tokens": 96})
    recipe = recipe.model_copy(update={"decoding": decoding})
    progress = RecordedProgress()
    undisturbed = read_profile(profile_workload(requests, recipe, tmp_path / "whole", progress))
    # Children are forked from a process that has imported everything and started no threads.
    context = multiprocessing.get_context("forkserver")
    engine = "dwise_predict.engines.torch_engine.engine"
    context.set_forkserver_preload(
        ["tests.profiles", engine, "jinja2", "tokenizers", "torch._refs"]
    )
    rng = random.Random(0)
    folder = tmp_path / "killed"
    kills, shards_seen = 0, set()
    while not (folder / "run.json").exists():
        serving = context.Event()
        child = context.Process(
            target=profile_and_announce, args=(serving, requests, recipe, folder)
        )
        child.start()
        assert serving.wait(60)
        child.join(rng.uniform(0, 0.45) * progress.seconds["profile"])
        if child.exitcode is None:
            child.kill()
            child.join()
            kills += 1
        else:
            assert child.exitcode == 0
        shards_seen.add(len(list(folder.glob("shards/shard-*"))))
    assert kills >= 3
    assert len(shards_seen) >= 3
    profile_workload(requests, recipe, folder)
    assert not (folder / "shards").exists()
    assert_same_labels(read_profile(folder), undisturbed)
