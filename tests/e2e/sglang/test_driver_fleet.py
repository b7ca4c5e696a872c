"""``dwise profile --server``: running servers that die and come back, and what is made of it."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from dwise_predict.launch import launch_file
from dwise_predict.profile import LABEL_COLUMNS, read_profile
from dwise_predict.workload.jsonl import read_jsonl
from tests.e2e.sglang.driving import DWISE, Campaign, RecordingServer
from tests.e2e.sglang.server import free_port


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    campaign = Campaign("sdar-8b", tmp_path_factory.mktemp("fleet"), budget=48, requests=96)
    return campaign.write("SDARForCausalLM", certainty=6.0)


@pytest.fixture(scope="module")
def servers(campaign):
    both = [RecordingServer(campaign, name).start() for name in ("a", "b")]
    try:
        yield [server.wait() for server in both]
    finally:
        for server in both:
            server.kill()


@pytest.fixture(scope="module")
def undisturbed(campaign):
    """What one engine makes of it."""
    campaign.dwise("profile", *campaign.flags, "--out", "single")
    return read_profile(campaign.folder / "single" / "profile")


@pytest.fixture(scope="module")
def served(campaign, servers):
    """What the driver said when one server died half-way and came back; both recordings."""
    a, b = servers
    flags = [word for server in servers for word in ("--server", server.url)]
    driver = campaign.start("profile", *campaign.flags, "--out", "run", *flags)
    until = time.monotonic() + 500
    while len(b.recorded()) < 12:
        assert driver.poll() is None and time.monotonic() < until, driver.communicate()
        time.sleep(0.02)
    b.kill()
    before = len(b.recorded())
    # So that some are left for it when it is back.
    with a.stopped():
        b.start().wait()
        while len(b.recorded()) == before:
            assert driver.poll() is None and time.monotonic() < until, driver.communicate()
            time.sleep(0.1)
    _, stderr = driver.communicate(timeout=600)
    assert driver.returncode == 0, stderr
    return stderr, before


def same_content(profile, other):
    for name in LABEL_COLUMNS:
        if name != "shard":
            assert profile.requests[name].equals(other.requests[name]), name
    np.testing.assert_allclose(
        profile.hidden.astype(np.float32), other.hidden.astype(np.float32), rtol=2e-3, atol=2e-3
    )


def test_the_merged_profile_is_that_of_an_undisturbed_run(campaign, servers, served, undisturbed):
    (said, before), (a, b) = served, servers
    assert f"{b.url}: " in said and f"{b.url} is back" in said
    profile = read_profile(campaign.folder / "run" / "profile")
    requests = read_jsonl(campaign.folder / "run" / "workload.jsonl")
    assert len(requests) == 96
    assert profile.requests["request_id"].to_pylist() == [r.request_id for r in requests]
    # Both served, and the second was in the middle of it.
    assert len(a.recorded()) > 12 and 12 <= before < len(b.recorded())
    assert len(a.recorded()) + len(b.recorded()) >= 96
    # Two starts of one server and one of the other.
    assert set(profile.requests["shard"].to_pylist()) == {1, 2, 3}
    assert profile.run.workload == undisturbed.run.workload
    same_content(profile, undisturbed)


def test_merge_makes_the_same_of_copied_recordings(campaign, servers, served, tmp_path):
    copies = [shutil.copytree(s.recording, tmp_path / s.recording.name) for s in servers]
    said = campaign.dwise(
        *("profile", "merge", *copies, "--workload", "run", "--out", tmp_path / "merged")
    )
    assert "96 requests of 2 recordings" in said
    merged, own = read_profile(tmp_path / "merged"), read_profile(campaign.folder / "run/profile")
    assert merged.run.files["first_round.safetensors"] == own.run.files["first_round.safetensors"]
    columns = [name for name in LABEL_COLUMNS if name != "answer_correct"]
    assert merged.requests.select(columns).equals(own.requests.select(columns))


def test_a_campaign_that_is_recorded_is_not_served_again(campaign, servers, served):
    counts = [len(server.recorded()) for server in servers]
    for server in servers:
        server.kill()
    words = [word for server in servers for word in ("--recording", server.recording)]
    prompts = (campaign.folder / "prompts.jsonl").read_text().splitlines()
    unchecked = [{k: v for k, v in json.loads(p).items() if k != "answer"} for p in prompts]
    (campaign.folder / "unchecked.jsonl").write_text("\n".join(map(json.dumps, unchecked)))
    flags = [word.replace("prompts", "unchecked") for word in campaign.flags]
    said = campaign.dwise("profile", *flags, "--out", "again", *words)
    assert "tokenising" not in said
    own, again = (read_profile(campaign.folder / name / "profile") for name in ("run", "again"))
    assert again.requests["rounds"].equals(own.requests["rounds"])
    assert [len(server.recorded()) for server in servers] == counts
    # Answers of the earlier run are gone with it; those to be checked are asked for again.
    process = campaign.start("profile", *campaign.flags, "--out", "checked", *words)
    _, stderr = process.communicate(timeout=400)
    assert process.returncode == 2
    assert "error: 32 (line-1, line-4, line-7, …) of 96 requests" in stderr
    assert "add --server URL" in stderr


def test_servers_of_something_else_are_refused_one_by_one(campaign, servers, served):
    other = Campaign(
        campaign.recipe, campaign.folder, settings=("decoding.parameters.threshold=0.7",)
    )
    server = RecordingServer(other, "other").start()
    try:
        server.wait()
        process = campaign.start(
            *("profile", *campaign.flags, "--out", "refused", "--server", server.url)
        )
        _, stderr = process.communicate(timeout=400)
        assert process.returncode == 2
        assert "decoding.parameters.threshold: 0.95 -> 0.7" in stderr
        assert not (campaign.folder / "refused").exists()
        doctor = campaign.start(
            *("doctor", *other.flags, "--server", server.url, "--server", "http://127.0.0.1:9")
        )
        stdout, _ = doctor.communicate(timeout=400)
        assert doctor.returncode == 0, stdout
        assert f"{server.url}, 8 slots, records into {server.recording}" in stdout
        assert "WARN" in stdout and "127.0.0.1:9" in stdout
    finally:
        server.kill()


def test_what_a_server_recorded_that_is_down_is_not_served_again(campaign):
    # Without answers to check: of these the last ones may be lost with the driver, and asked again.
    rows = [
        {"prompt": f"Count to {number}.", "category": "abc"[number % 3]} for number in range(40)
    ]
    (campaign.folder / "few.jsonl").write_text("\n".join(map(json.dumps, rows)))
    both = [RecordingServer(campaign, name).start() for name in ("c", "d")]
    try:
        c, d = (server.wait() for server in both)
        words = [word.replace("prompts.jsonl", "few.jsonl") for word in campaign.flags]
        words += ["--out", "torn", "--server", c.url, "--server", d.url]
        driver = campaign.start("profile", *words)
        until = time.monotonic() + 400
        while not (c.recorded() and d.recorded()):
            assert driver.poll() is None and time.monotonic() < until, driver.communicate()
            time.sleep(0.02)
        driver.kill()
        driver.communicate()
        d.kill()
        by_d = set(d.recorded())
        assert 0 < len(by_d) < len(rows)
        campaign.dwise("profile", *words, "--resume")
        profile = read_profile(campaign.folder / "torn" / "profile")
        assert profile.requests.num_rows == len(rows)
        assert not by_d & set(c.recorded())
    finally:
        for server in both:
            server.kill()


def test_the_launch_file_for_a_node(campaign, tmp_path):
    """As it is shipped, with CPUs for GPUs."""
    script = tmp_path / "one_node.sh"
    script.write_text(launch_file("one_node.sh"))
    settings = ("workload.name=jsonl", f"workload.path={campaign.folder / 'prompts.jsonl'}")
    words = [word for setting in settings for word in ("--set", setting)]
    variables = {"MODEL": campaign.recipe, "GPUS": "2", "PORT": str(free_port()), "OUT": "run"}
    path = f"{Path(DWISE).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", script, *campaign.overrides, *words],
        cwd=tmp_path,
        env={**campaign.environment, **variables, "PATH": path},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "bundle" / "config.json").is_file()
    # Both servers took part.
    shards = read_profile(tmp_path / "run" / "profile").requests["shard"].to_pylist()
    assert set(shards) == {1, 2}
