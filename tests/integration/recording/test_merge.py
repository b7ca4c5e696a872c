"""``dwise profile merge`` and ``dwise train --profile`` on what it makes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dwise_predict.profile import read_profile
from dwise_predict.profile.records import SHARDS_FOLDER
from dwise_predict.recipe import dump_recipe, load_recipe
from dwise_predict.recording import campaign_tag, recorded_id
from dwise_predict.workload.jsonl import dump_jsonl, read_jsonl
from dwise_predict.workload.schema import Request
from dwise_predict.workload.split import split_requests
from tests.profiles import small_workload
from tests.recordings import record_of, round_record, write_recording
from tests.runs import dwise


@pytest.fixture
def requests(tmp_path: Path) -> list[Request]:
    """Requests of ``prompts.jsonl``, without a split."""
    plain = [r.model_copy(update={"split": None}) for r in small_workload(60)]
    (tmp_path / "prompts.jsonl").write_text(dump_jsonl(plain))
    return read_jsonl(tmp_path / "prompts.jsonl")


def record(folder: Path, requests: list[Request], tag: str) -> Path:
    return write_recording(
        folder,
        [[round_record(), *(record_of(r, recorded_id(r.request_id, tag)) for r in requests)]],
    )


def merge(*flags: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return dwise("profile", "merge", "a", "--workload", "prompts.jsonl", *flags, cwd=cwd)


def test_two_servers_and_a_file(tmp_path: Path, requests: list[Request]) -> None:
    tag = campaign_tag(requests, "stock")
    record(tmp_path / "a", requests[:40], tag)
    record(tmp_path / "b", requests[35:], tag)
    done = dwise(
        *("profile", "merge", "a", "b", "--workload", "prompts.jsonl", "--out", "out"), cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "60 requests of 2 recordings",
        "5 requests recorded more than once, the last counts; 0 with other labels",
        "profile: out",
    ]
    profile = read_profile(tmp_path / "out")
    assert profile.run.fingerprint.budget_tokens == 16
    assert set(profile.requests["split"].to_pylist()) == {"train", "eval"}
    again = merge("--out", "out", cwd=tmp_path)
    assert again.returncode == 2 and "choose another --out" in again.stderr
    trained = dwise(
        *("train", "--profile", "out", "--out", "run", "--set", "predictors.refiner.epochs=2"),
        cwd=tmp_path,
    )
    assert trained.returncode == 0, trained.stderr
    assert (tmp_path / "run" / "bundle" / "config.json").is_file()


def test_what_is_missing_is_named_with_the_command(tmp_path: Path, requests: list[Request]) -> None:
    record(tmp_path / "a", requests[:57], campaign_tag(requests, "stock"))
    done = merge("--out", "o", cwd=tmp_path)
    assert done.returncode == 2
    assert "3 of 60 requests are not recorded (r057, r058, r059)" in done.stderr
    assert (
        "dwise profile --model MODEL --workload prompts.jsonl --recording a --server URL"
        in done.stderr
    )
    assert not (tmp_path / "o").exists()


def test_a_run_folder_gives_answers_and_budget(tmp_path: Path, requests: list[Request]) -> None:
    run = tmp_path / "run"
    (run / "profile" / SHARDS_FOLDER).mkdir(parents=True)
    recipe = load_recipe("sdar-8b", ["decoding.budget_tokens=16", "seed=5"])
    (run / "recipe.yaml").write_text(dump_recipe(recipe))
    split = split_requests(requests, 0.33, 5)
    (run / "workload.jsonl").write_text(dump_jsonl(split))
    lines = ['{"request_id": "r001", "text": "it is 7"}', '{"request_id": "r003", "text": "8"}']
    answers = run / "profile" / SHARDS_FOLDER / "answers.jsonl"
    answers.write_text("\n".join([*lines, '{"request_id": "r005", "te']))
    record(tmp_path / "a", split, campaign_tag(split, "stock"))
    done = dwise("profile", "merge", "a", "--workload", "run", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    profile = read_profile(tmp_path / "out")
    assert (profile.run.seed, profile.run.workload.name) == (5, "paper")
    assert profile.requests["answer_correct"].to_pylist()[:6] == [
        None,
        True,
        None,
        False,
        None,
        None,
    ]
    lost = merge("--out", "o2", cwd=tmp_path)
    assert lost.returncode == 0
    assert read_profile(tmp_path / "o2").requests["answer_correct"].null_count == 60


def test_live_traffic_needs_no_workload(tmp_path: Path, requests: list[Request]) -> None:
    write_recording(tmp_path / "live", [[record_of(r, f"x{r.request_id}") for r in requests]])
    done = dwise("profile", "merge", "live", "--out", "out", cwd=tmp_path)
    assert done.stdout == "60 requests of 1 recording\nprofile: out\n", done.stderr
    nothing = dwise("profile", "merge", "prompts.jsonl", "--out", "o", cwd=tmp_path)
    assert nothing.returncode == 2 and "no recording of the SGLang plugin" in nothing.stderr
