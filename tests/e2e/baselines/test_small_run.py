"""From a profiled run to baselines that schedule, in the simulator and in the built-in engine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import yaml

from dwise_predict.baselines import (
    METHODS,
    ROUNDS_FOLDER,
    Baselines,
    BaselineSettings,
    Method,
    read_rounds,
    record_rounds,
    train_run_baselines,
)
from dwise_predict.baselines.settings import (
    BucketSettings,
    EncoderSettings,
    LtrSettings,
    SsjfSettings,
    TrailSettings,
    TuningSettings,
)
from dwise_predict.baselines.trail import Trail
from dwise_predict.engines.loading import load_engine
from dwise_predict.engines.protocol import Engine, Refinement, RoundHidden
from dwise_predict.engines.recording import engine_request
from dwise_predict.errors import BaselineError
from dwise_predict.pipeline import run_profiling
from dwise_predict.profile import Profile, read_profile
from dwise_predict.recipe import Recipe, load_recipe
from dwise_predict.scheduling import ResidencyLimits, RoundCost, fcfs_scheduler
from dwise_predict.serving import serve_workload
from dwise_predict.simulation.run import Arrivals, Setup, simulate
from dwise_predict.simulation.sources.profiled import profile_source
from dwise_predict.workload.jsonl import read_jsonl
from dwise_predict.workload.schema import Request
from tests.encoders import write_encoder
from tests.runs import write_study

SLOTS, BLOCK = 8, 4
LIMITS = ResidencyLimits(SLOTS, BLOCK, multiplier=4)
COST = RoundCost(1.0, 0.5, 0.001)


def small(encoder: Path) -> BaselineSettings:
    own = EncoderSettings(model=str(encoder), pooling="mean", max_tokens=16, frozen_layers=1)
    tuning = TuningSettings(epochs=3, batch_size=8, learning_rate=1e-2, decay="linear")
    buckets = BucketSettings(encoder=own, buckets=6, tuning=tuning)
    return BaselineSettings(
        ssjf=SsjfSettings(encoder=own, tuning=tuning, head=tuning),
        s3=buckets,
        ltr=LtrSettings(encoder=own, tuning=tuning, group_tokens=1),
        trail=TrailSettings(
            initial=buckets,
            bins=6,
            width=32,
            tuning=TuningSettings(epochs=20, batch_size=32, learning_rate=1e-2, decay="cosine"),
        ),
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with a finished profile of a random checkpoint, and trained baselines."""
    folder = write_study(tmp_path_factory.mktemp("study"), requests=48)
    text = yaml.safe_load((folder / "recipe.yaml").read_text())
    text["model"]["repo"] = str(folder / "checkpoint")
    text["workload"] = {"name": "jsonl", "path": str(folder / "prompts.jsonl")}
    (folder / "own.yaml").write_text(yaml.safe_dump(text))
    run_profiling(load_recipe(str(folder / "own.yaml")), folder / "run")
    encoder = write_encoder(folder / "encoder")
    train_run_baselines(folder / "run", small(encoder))
    return folder / "run"


@pytest.fixture(scope="module")
def profile(run: Path) -> Profile:
    return read_profile(run / "profile")


@pytest.fixture(scope="module")
def requests(run: Path) -> list[Request]:
    return read_jsonl(run / "workload.jsonl")


@pytest.fixture(scope="module")
def recipe(run: Path) -> Recipe:
    return load_recipe(str(run / "recipe.yaml"))


@pytest.fixture(scope="module")
def engine(recipe: Recipe) -> Engine:
    return load_engine(recipe)


@pytest.fixture(scope="module")
def baselines(run: Path) -> Baselines:
    return Baselines.load(run / "baselines")


def test_the_recording_has_the_labels_of_the_profile(run: Path, profile: Profile) -> None:
    rounds = read_rounds(profile, run / ROUNDS_FOLDER)
    table = profile.requests
    assert rounds.counts.tolist() == table["rounds"].to_pylist()
    assert rounds.output_tokens.tolist() == table["output_tokens"].to_pylist()
    # The first of every request's means is the one that the profile holds.
    np.testing.assert_array_equal(rounds.means[rounds.starts[:-1]], profile.hidden)
    assert (rounds.left >= 0).all()
    assert (rounds.left[rounds.starts[1:] - 1] == 0).all()
    for i, blocks in enumerate(table["rounds_per_block"].to_pylist()):
        own = rounds.committed[rounds.starts[i] : rounds.starts[i + 1]]
        changes = np.flatnonzero(np.diff(np.concatenate([[0], own]))) + 1
        # Tokens are committed by the last round of each block, and by no other.
        assert set(changes) <= set(np.cumsum(blocks).tolist())


def test_a_recording_goes_on_where_it_stopped(
    run: Path, profile: Profile, requests: list[Request], recipe: Recipe, tmp_path: Path
) -> None:
    shards = sorted((run / ROUNDS_FOLDER).iterdir())
    assert len(shards) > 2
    out = tmp_path / "rounds"
    out.mkdir()
    for shard in (shards[0], shards[2]):
        (out / shard.name).write_bytes(shard.read_bytes())
    record_rounds(profile, requests, recipe, out)
    assert [p.read_bytes() for p in sorted(out.iterdir())] == [p.read_bytes() for p in shards]


def test_damaged_recordings_and_those_of_others_are_refused(
    run: Path, profile: Profile, requests: list[Request], recipe: Recipe, tmp_path: Path
) -> None:
    shards = sorted((run / ROUNDS_FOLDER).iterdir())
    for shard in shards:
        (tmp_path / shard.name).write_bytes(shard.read_bytes())
    (tmp_path / shards[1].name).write_bytes(shards[1].read_bytes()[:-7])
    with pytest.raises(BaselineError, match=rf"{shards[1].name} is missing or damaged"):
        read_rounds(profile, tmp_path)
    (tmp_path / shards[1].name).write_bytes(shards[0].read_bytes())
    files = {**profile.run.files, "requests.parquet": "0" * 64}
    other = Profile(
        profile.run.model_copy(update={"files": files}),
        profile.requests,
        profile.rounds,
        profile.hidden,
    )
    with pytest.raises(BaselineError, match="for another profile"):
        read_rounds(other, tmp_path)
    with pytest.raises(BaselineError, match="in another order"):
        record_rounds(profile, requests[::-1], recipe, tmp_path)
    threshold = {"decoding": recipe.decoding.model_copy(update={"parameters": {"threshold": 0.4}})}
    with pytest.raises(BaselineError, match="algorithm_parameters"):
        record_rounds(profile, requests, recipe.model_copy(update=threshold), tmp_path / "new")


def test_trail_says_the_same_live_as_in_a_replay(
    run: Path, profile: Profile, requests: list[Request], engine: Engine, baselines: Baselines
) -> None:
    trail = baselines["trail"]
    assert isinstance(trail, Trail)
    rounds = read_rounds(profile, run / ROUNDS_FOLDER)
    first = requests[: len(profile.run.shard_rows(0))]
    replayed = trail.remaining(rounds.of([r.request_id for r in first]))
    live: dict[str, list[float]] = {r.request_id: [] for r in first}
    watch = trail.watch()

    def keep(seen: RoundHidden) -> Mapping[str, Refinement]:
        answers = watch(seen)
        for request_id, answer in answers.items():
            live[request_id].append(answer.remaining)
        return answers

    asked = [engine_request(r, engine, profile.run.fingerprint.budget_tokens) for r in first]
    engine.serve(asked, fcfs_scheduler(SLOTS), watch=keep)
    for own, expected in zip(live.values(), replayed, strict=True):
        np.testing.assert_allclose(own, expected, rtol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_every_baseline_schedules_the_engine_and_the_simulator(
    run: Path,
    profile: Profile,
    requests: list[Request],
    engine: Engine,
    baselines: Baselines,
    method: Method,
) -> None:
    chosen = [r for r in requests if r.split == "eval"]
    source = profile_source(profile)
    arrivals = Arrivals("burst", np.zeros(len(chosen)))
    setup = Setup(method, "mixed_phase", baselines.policy_options(method))
    rounds = read_rounds(profile, run / ROUNDS_FOLDER)
    predictor = baselines.simulated(method, source, requests, rounds)
    simulated = simulate(source, arrivals, setup, LIMITS, COST, predictor)
    served = serve_workload(
        chosen,
        engine,
        setup,
        LIMITS,
        arrivals,
        profile.run.fingerprint.budget_tokens,
        COST,
        told=baselines.told(method, chosen),
    )
    assert served.requests["request_id"].to_pylist() == source.facts["request_id"].to_pylist()
    # Output tokens do not depend on the order of service, and both are told the same at arrival.
    for name in ("output_tokens", "admission_estimate"):
        assert served.requests[name].to_pylist() == simulated.requests[name].to_pylist(), name
    # The order in which requests finish agrees but where a watch hears of a block a round later.
    finish = [np.argsort(r.requests["finished_s"].to_numpy()) for r in (served, simulated)]
    agreement = np.corrcoef(np.argsort(finish[0]), np.argsort(finish[1]))[0, 1]
    assert agreement > 0.9
