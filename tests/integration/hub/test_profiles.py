"""Profiles as data sets on the Hub: published, loaded by ``datasets``, trained from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from dwise_predict.bundle import PredictorBundle
from dwise_predict.errors import HubError, ProfileError, RunError
from dwise_predict.hub.address import Address
from dwise_predict.hub.client import Access
from dwise_predict.pipeline import run_training_from_profile
from dwise_predict.predictors.errors import TrainingError
from dwise_predict.profile import read_profile
from dwise_predict.profile_repo import fetch_profile, push_profile, repo_files
from dwise_predict.recipe import AdmissionSettings
from dwise_predict.workload.schema import Message, Request
from tests.hub import Fault, Hub
from tests.integration.hub.conftest import SETTINGS
from tests.profiles import small_workload
from tests.synthetic import synthetic_examples, with_tokens, write_profile

REPO = "acme/dwise-dllm-mini-profile"


@pytest.fixture
def published(hub: Hub, profile: Path) -> str:
    return push_profile(repo_files(profile, None), REPO, "profile").commit


def test_training_from_the_hub_is_training_from_the_folder(
    made: Path, published: str, tmp_path: Path
) -> None:
    found = fetch_profile(Address(REPO), Access(cache_dir=tmp_path / "fresh"))
    assert str(found) == f"{REPO}@{published}"
    result = run_training_from_profile(
        found.folder, tmp_path / "run", SETTINGS, 0, profile_repo=str(found)
    )
    local, remote = PredictorBundle.load(made), PredictorBundle.load(result.folder.bundle)
    for name in ("admission.txt", "refiner.safetensors", "metrics.json", "smoke.json"):
        assert remote.files[name] == local.files[name]
    assert remote.provenance.profile_sha256 == local.provenance.profile_sha256
    assert remote.provenance.profile_repo == f"{REPO}@{published}"
    assert f"- {REPO}\n" in remote.card
    assert result.folder.report.is_file()
    with pytest.raises(RunError, match="is not empty"):
        run_training_from_profile(found.folder, tmp_path / "run", SETTINGS)


def test_prompts_are_left_out(hub: Hub, published: str) -> None:
    files = hub.repo(REPO, "datasets").commits[published]
    assert "prompts.parquet" not in files
    assert "Prompts are not part of this data set" in files["README.md"].decode()


def test_prompts_are_published_when_asked_for_and_belong_to_the_profile(tmp_path: Path) -> None:
    prompts = small_workload(12)
    folder = _profile_of(prompts, tmp_path / "profile")
    files = repo_files(folder, prompts)
    (tmp_path / "prompts.parquet").write_bytes(files["prompts.parquet"])
    rows = pq.read_table(tmp_path / "prompts.parquet").to_pylist()
    assert [row["request_id"] for row in rows] == [request.request_id for request in prompts]
    assert rows[1]["messages"] == [{"role": "user", "content": prompts[1].text}]
    assert rows[1]["answer"] == "7"
    changed = (Message(role="user", content="another prompt"),)
    wrong = [prompts[0].model_copy(update={"messages": changed}), *prompts[1:]]
    with pytest.raises(ProfileError, match="request 'r000' differs"):
        repo_files(folder, wrong)


def test_token_bins_go_with_the_prompts(hub: Hub, tmp_path: Path) -> None:
    prompts = small_workload(12)
    folder = _profile_of(prompts, tmp_path / "profile")
    bins = read_profile(folder).requests["token_bins"]
    assert bins.null_count == 0
    for files, published in ((repo_files(folder, prompts), 0), (repo_files(folder, None), 12)):
        push_profile(files, REPO, "profile")
        found = read_profile(fetch_profile(Address(REPO), Access()).folder)
        assert found.requests["token_bins"].null_count == published
        assert found.requests.drop_columns(["token_bins"]).equals(
            read_profile(folder).requests.drop_columns(["token_bins"])
        )
    extended = SETTINGS.model_copy(update={"admission": AdmissionSettings(features="extended")})
    with pytest.raises(TrainingError, match="published without prompts"):
        run_training_from_profile(
            fetch_profile(Address(REPO), Access()).folder, tmp_path / "run", extended
        )


def test_prompts_do_not_stay_behind(hub: Hub, tmp_path: Path) -> None:
    prompts = small_workload(12)
    folder = _profile_of(prompts, tmp_path / "profile")
    push_profile(repo_files(folder, prompts), REPO, "with prompts")
    repo = hub.repo(REPO, "datasets")
    assert "prompts.parquet" in repo.commits[repo.branches["main"]]
    push_profile(repo_files(folder, None), REPO, "without")
    assert "prompts.parquet" not in repo.commits[repo.branches["main"]]


def _profile_of(prompts: list[Request], folder: Path) -> Path:
    """A profile whose requests are these prompts."""
    examples = with_tokens(synthetic_examples(len(prompts), seed=3, hidden=4), seed=3)
    examples.prompt[:] = [request.prompt_sha256 for request in prompts]
    ids = [request.request_id for request in prompts]
    return write_profile(folder, examples, synthetic_examples(0, 4, 4), request_ids=ids)


def test_datasets_loads_every_table(hub: Hub, profile: Path, published: str) -> None:
    code = f"""
import json
from datasets import load_dataset
tables = {{name: load_dataset({REPO!r}, name, split="profile")
           for name in ("requests", "rounds", "first_round")}}
default = load_dataset({REPO!r}, split="profile")
hidden = [[float(x) for x in row["hidden"]] for row in tables["first_round"]]
print(json.dumps({{
    "rows": {{name: len(table) for name, table in tables.items()}},
    "default": default.column_names,
    "rounds": default["rounds"][:],
    "hidden": hidden,
}}))
"""
    variables = {
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(profile.parent / "hf"),
        "HF_HUB_DISABLE_XET": "1",
    }
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    found, stored = json.loads(run.stdout.splitlines()[-1]), read_profile(profile)
    assert found["rows"] == {"requests": 120, "rounds": 4, "first_round": 120}
    assert found["default"] == stored.requests.column_names
    assert found["rounds"] == stored.requests["rounds"].to_pylist()
    assert found["hidden"] == stored.hidden.astype(float).tolist()


def test_the_card_describes_the_tables(hub: Hub, profile: Path, published: str) -> None:
    card = hub.repo(REPO, "datasets").commits[published]["README.md"].decode()
    head = yaml.safe_load(card.split("---\n")[1])
    assert head["size_categories"] == ["n<1K"]
    assert [config["config_name"] for config in head["configs"]] == [
        *("requests", "rounds", "first_round")
    ]
    assert "dwise-train --profile hub:" in card
    assert "120 requests served first come, first served" in card


def test_what_is_no_profile_or_damaged_is_said(
    hub: Hub, profile: Path, published: str, tmp_path: Path
) -> None:
    access = Access(cache_dir=tmp_path / "fresh")
    with pytest.raises(HubError, match="the data set acme/none does not exist"):
        fetch_profile(Address("acme/none"), access)
    hub.add("acme/squad", {"train.parquet": b"PAR1"}, kind="datasets")
    with pytest.raises(HubError, match=r"no published profile: it has no run\.json"):
        fetch_profile(Address("acme/squad"), access)
    hub.faults = [Fault("/cdn/", "flip", times=1, method="GET")]
    assert read_profile(fetch_profile(Address(REPO), access).folder).run.seed == 0
    (profile.parent / "unfinished" / "shards").mkdir(parents=True)
    with pytest.raises(ProfileError, match="is unfinished"):
        repo_files(profile.parent / "unfinished", None)


def test_local_paths_are_not_published(tmp_path: Path) -> None:
    folder = write_profile(
        tmp_path / "profile",
        synthetic_examples(5, 1, 4),
        synthetic_examples(2, 2, 4),
        model="/home/joe/model",
    )
    with pytest.raises(ProfileError, match=r"run\.json would publish the local path"):
        repo_files(folder, None)


def test_a_stranger_cannot_have_other_files_read(
    hub: Hub, profile: Path, published: str, tmp_path: Path
) -> None:
    files = dict(hub.repo(REPO, "datasets").commits[published])
    run = json.loads(files["run.json"])
    run["files"]["/dev/zero"] = "0" * 64
    hub.add("acme/evil", files | {"run.json": json.dumps(run).encode()}, kind="datasets")
    with pytest.raises(ProfileError, match=r"tell its owner: .* lists the files .*/dev/zero"):
        fetch_profile(Address("acme/evil"), Access(cache_dir=tmp_path / "fresh"))
    files["run.json"] += b" " * 2**23
    hub.add("acme/large", files, kind="datasets")
    with pytest.raises(HubError, match=r"run\.json has \d+ bytes; not downloaded"):
        fetch_profile(Address("acme/large"), Access(cache_dir=tmp_path / "fresh"))
