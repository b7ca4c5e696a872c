"""``dwise profile merge`` and ``dwise train --profile`` on what it makes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dwise_predict.fingerprint import Fingerprint
from dwise_predict.profile import read_profile
from dwise_predict.profile.records import SHARDS_FOLDER
from dwise_predict.recipe import dump_recipe, load_recipe
from dwise_predict.recording import campaign_tag, recorded_id
from dwise_predict.workload.jsonl import dump_jsonl, read_jsonl
from dwise_predict.workload.schema import Request
from dwise_predict.workload.split import split_requests
from tests.profiles import small_workload
from tests.recordings import FINGERPRINT, record_of, round_record, write_recording
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


SDAR = load_recipe("sdar-8b")
SERVED = FINGERPRINT.model_copy(
    update={
        "model": SDAR.model.repo,
        "revision": SDAR.model.revision,
        "algorithm_parameters": {"threshold": 0.95},
        "dtype": "bfloat16",
    }
)


def test_a_run_is_completed_with_recordings_alone(tmp_path: Path) -> None:
    """No SGLang, no server, no tokenizer: everything was recorded elsewhere."""
    plain = [r.model_copy(update={"split": None, "answer": None}) for r in small_workload(60)]
    (tmp_path / "prompts.jsonl").write_text(dump_jsonl(plain))
    tag = campaign_tag(plain, "stock")

    def written(name: str, requests: list[Request], fingerprint: Fingerprint = SERVED) -> None:
        records = [record_of(r, recorded_id(r.request_id, tag)) for r in requests]
        write_recording(tmp_path / name, [[round_record(), *records]], fingerprint, slots=128)

    def profile(*recordings: str) -> subprocess.CompletedProcess[str]:
        words = [word for name in recordings for word in ("--recording", name)]
        flags = ["--workload", "prompts.jsonl", "--set", "decoding.budget_tokens=16"]
        return dwise("profile", "--model", "sdar-8b", *flags, "--out", "run", *words, cwd=tmp_path)

    written("a", plain[:31])
    written("b", plain[30:])
    half = profile("a")
    assert half.returncode == 2
    assert "29 (r031, r032, r033, …) of 60 requests are not recorded" in half.stderr
    assert "add --server URL" in half.stderr
    other = SERVED.model_copy(update={"algorithm_parameters": {"threshold": 0.9}})
    written("c", plain, other)
    wrong = profile("c")
    assert wrong.returncode == 2
    assert "c was not recorded as the recipe says" in wrong.stderr
    assert "decoding.parameters.threshold: 0.95 -> 0.9" in wrong.stderr
    both = profile("a", "b")
    assert both.returncode == 0, both.stderr
    made = read_profile(tmp_path / "run" / "profile")
    assert made.requests["request_id"].to_pylist() == [r.request_id for r in plain]
    assert made.run.fingerprint.budget_tokens == 16
