"""``dwise train`` through SGLang: recipes with tiny checkpoints, to bundles that SGLang uses."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from dwise_predict.bundle import PredictorBundle
from dwise_predict.engines.sglang_engine.arguments import algorithm_config
from dwise_predict.evaluation.stability import Stability
from dwise_predict.profile import read_profile
from dwise_predict.recipe import load_recipe
from dwise_predict.workload.jsonl import read_jsonl
from tests.e2e.sglang import environment
from tests.e2e.sglang.driving import DWISE, SLOTS, Campaign
from tests.e2e.sglang.gemma import CANVAS, write_gemma
from tests.e2e.sglang.inprocess import Setting
from tests.e2e.sglang.server import ROOT, Server
from tests.e2e.sglang.workloads import random_requests

ARCHITECTURES = {"llada2.1-mini": "LLaDA2MoeModelLM", "sdar-8b": "SDARForCausalLM"}


@pytest.fixture(scope="module", params=list(ARCHITECTURES))
def trained(request, tmp_path_factory):
    """A campaign that ``dwise train`` took from prompts to a bundle."""
    campaign = Campaign(request.param, tmp_path_factory.mktemp(request.param))
    campaign.write(ARCHITECTURES[request.param], certainty=12.0)
    more = ["--repeats", "2", "--compare-batching"] if request.param == "sdar-8b" else []
    said = campaign.dwise("train", *campaign.flags, "--out", "run", *more)
    return campaign, said


def test_train_goes_from_prompts_to_a_bundle(trained):
    campaign, said = trained
    run = campaign.folder / "run"
    assert "starting SGLang" in said and "profile: done" in said
    requests = read_jsonl(run / "workload.jsonl")
    profile = read_profile(run / "profile")
    assert profile.requests["request_id"].to_pylist() == [r.request_id for r in requests]
    fingerprint = profile.run.fingerprint
    recipe = load_recipe(campaign.recipe, [*campaign.overrides[1::2]])
    assert fingerprint.engine == "sglang" and fingerprint.budget_tokens == campaign.budget
    assert fingerprint.algorithm_parameters == recipe.decoding.parameters
    assert profile.run.engine.slots == SLOTS and profile.run.batching == "stock"
    rows = profile.requests.to_pylist()
    assert all(row["rounds"] == sum(row["rounds_per_block"]) > 0 for row in rows)
    assert all(row["words"] > 1 and row["token_bins"] for row in rows)
    # The first category has answers to check.
    judged = {row["category"] for row in rows if row["answer_correct"] is not None}
    assert judged == {"a"}
    # First come, first served: in the order of the workload.
    arrivals = profile.requests["arrival_s"].to_pylist()
    assert arrivals == sorted(arrivals)
    assert not (run / "profile" / "shards").exists()
    if campaign.recipe == "sdar-8b":
        mixed = read_profile(run / "mixed")
        assert mixed.run.batching == "mixed" and mixed.run.fingerprint == fingerprint
        assert mixed.requests["request_id"].equals(profile.requests["request_id"])
        assert mixed.rounds.num_rows < profile.rounds.num_rows
        again = read_profile(run / "repeats" / "2")
        assert again.run.batching == "stock" and again.run.fingerprint == fingerprint
        served = again.requests["request_id"].to_pylist()
        assert served != [r.request_id for r in requests] and len(served) == len(requests)
        stability = Stability.model_validate_json((run / "stability.json").read_bytes())
        assert [(c.a, c.b) for c in stability.comparisons] == [
            ("profile", "repeats/2"),
            ("profile", "mixed"),
        ]
        for comparison in stability.comparisons:
            assert comparison.overall.requests == len(requests)
            assert comparison.overall.identical > 0.8 and comparison.overall.spearman > 0.9
        assert "repeats" in said and "stock against mixed" in said
    bundle = PredictorBundle.load(run / "bundle")
    assert bundle.config.fingerprint == fingerprint
    assert (run / "report.html").is_file()


def test_dwise_serve_is_active_with_the_bundle(trained, tmp_path):
    campaign, _ = trained
    decoding = load_recipe(campaign.recipe).decoding
    config = algorithm_config(decoding)
    setting = Setting(
        campaign.checkpoint, decoding.algorithm, config, decoding.block_size, slots=SLOTS
    )
    command = [DWISE, "serve", "--bundle", str(campaign.folder / "run" / "bundle"), "--"]
    with Server(setting, tmp_path, command=command) as server:
        answers = server.generate_all(random_requests(16, budget=campaign.budget))
        (said,) = server.dwise()
    assert all(isinstance(answer, list) for answer in answers)
    assert said["mode"] == "schedule" and said["fingerprint"] == "compatible"
    assert said["reason"] == "" and said["refinements"] > 0 and said["fallbacks"] == {}


@pytest.mark.skipif(environment.VERSION == "0.5.20", reason="0.5.20 has no DiffusionGemma")
def test_diffusiongemma_goes_the_same_way(tmp_path):
    inherited = os.environ["PYTHONPATH"]
    campaign = Campaign(
        "diffusiongemma-26b-a4b",
        tmp_path,
        budget=48,
        settings=(f"decoding.block_size={CANVAS}", "decoding.parameters.max_denoising_steps=12"),
        variables={"TEST_GEMMA": "1", "PYTHONPATH": f"{ROOT}{os.pathsep}{inherited}"},
    )
    write_gemma(campaign.checkpoint)
    campaign.complete()
    campaign.dwise("train", *campaign.flags, "--out", "run")
    profile = read_profile(tmp_path / "run" / "profile")
    recipe = load_recipe(campaign.recipe, campaign.overrides[1::2])
    assert profile.run.fingerprint.algorithm_parameters == recipe.decoding.parameters
    rows = profile.requests.to_pylist()
    assert {row["first_block_masked"] for row in rows} == {CANVAS}
    assert max(max(row["rounds_per_block"]) for row in rows) <= 12
    bundle = tmp_path / "run" / "bundle"
    assert PredictorBundle.load(bundle).config.fingerprint == profile.run.fingerprint
    setting = Setting(
        campaign.checkpoint,
        "Gemma4Renoise",
        algorithm_config(recipe.decoding),
        CANVAS,
        slots=SLOTS,
    )
    command = [DWISE, "serve", "--bundle", str(bundle), "--"]
    with Server(setting, tmp_path, variables=campaign.variables, command=command) as server:
        answers = server.generate_all(random_requests(8, budget=campaign.budget))
        (said,) = server.dwise()
    assert all(isinstance(answer, list) for answer in answers)
    assert said["mode"] == "schedule" and said["fingerprint"] == "compatible"
    assert said["refinements"] > 0


@pytest.fixture
def campaign(tmp_path):
    """One that takes a while: SDAR's rounds are many and small."""
    return Campaign("sdar-8b", tmp_path, budget=48, requests=216).write(
        "SDARForCausalLM", certainty=6.0
    )


def recorded(campaign):
    """Records so far."""
    segments = sorted((campaign.folder / "run/profile/shards/recording").glob("*.jsonl"))
    lines = [line for path in segments for line in path.read_text().splitlines()]
    return [line for line in lines if '"request_id"' in line]


def wait_for(campaign, process, count):
    until = time.monotonic() + 300
    while len(recorded(campaign)) < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.02)


def descendants(pid):
    """Processes below ``pid``."""
    found, todo = [], [pid]
    while todo:
        parent = todo.pop()
        for path in Path(f"/proc/{parent}/task").glob("*/children"):
            children = [int(child) for child in path.read_text().split()]
            found += children
            todo += children
    return found


def gone(pids):
    """Wait until none of them runs any more."""
    until = time.monotonic() + 90
    alive = list(pids)
    while alive and time.monotonic() < until:
        alive = [pid for pid in alive if running(pid)]
        time.sleep(0.1)
    return not alive


def running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_killed_driver_and_a_killed_engine_lose_what_was_in_flight(campaign):
    flags = ["profile", *campaign.flags, "--out", "run", "--resume"]
    # The driver, by SIGKILL: everything it started ends too.
    process = campaign.start(*flags)
    wait_for(campaign, process, 10)
    below = descendants(process.pid)
    process.kill()
    process.communicate()
    assert len(below) >= 3 and gone(below)
    first = len(recorded(campaign))
    # The engine, by SIGKILL: the driver says so.
    process = campaign.start(*flags)
    wait_for(campaign, process, first + 10)
    engine = [pid for pid in descendants(process.pid) if os.getpgid(pid) != os.getpgid(0)]
    os.kill(engine[0], signal.SIGKILL)
    _, stderr = process.communicate(timeout=400)
    assert process.returncode == 2 and "Traceback" not in stderr
    assert "SGLang ended (status -9)" in stderr and "continue with --resume" in stderr
    assert gone(engine)
    # Ctrl-C.
    process = campaign.start(*flags)
    wait_for(campaign, process, len(recorded(campaign)) + 5)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=400)
    assert process.returncode == 130 and "Traceback" not in stderr
    assert stderr.splitlines()[-1].startswith("interrupted; continue with: dwise profile --model")
    # What was recorded is not served again.
    kept = {json.loads(line)["request_id"] for line in recorded(campaign)}
    said = campaign.dwise(*flags)
    assert "profile: done" in said
    profile = read_profile(campaign.folder / "run" / "profile")
    requests = read_jsonl(campaign.folder / "run" / "workload.jsonl")
    assert profile.requests["request_id"].to_pylist() == [r.request_id for r in requests]
    assert len(kept) < len(requests)
    shards = profile.requests["shard"].to_pylist()
    assert set(shards) == {1, 2, 3, 4}
    assert sum(shard < 4 for shard in shards) >= len(kept) - SLOTS


def test_what_sglang_cannot_do_is_said_with_its_log(campaign):
    process = campaign.start(
        "profile", *campaign.flags, "--set", "engine.sglang.attention_backend=flashinfer"
    )
    _, stderr = process.communicate(timeout=400)
    assert process.returncode == 2 and "Traceback (most recent call last)" not in stderr[:200]
    assert "dwise-sglang-" in stderr
    # Nothing was served: the place is free for another try.
    assert not (campaign.folder / "runs").exists() or not any(
        path.is_dir() for path in (campaign.folder / "runs" / "sdar-8b").iterdir()
    )


@pytest.mark.skipif(environment.VERSION != "0.5.20", reason="the same on every release")
def test_prompts_that_are_too_long_are_named_before_any_is_served(campaign):
    with (campaign.folder / "prompts.jsonl").open("a") as file:
        file.write(json.dumps({"prompt": "x " * 3000, "request_id": "long"}) + "\n")
    process = campaign.start("profile", *campaign.flags, "--out", "run")
    _, stderr = process.communicate(timeout=400)
    assert process.returncode == 2
    assert "1 (long) requests have more tokens" in stderr
    assert recorded(campaign) == []
