"""Data sets of the paper's workload downloaded from a Hub, whole, missing, renamed and offline."""

from __future__ import annotations

from pathlib import Path

import pytest

from dwise_predict.errors import HubError, WorkloadError
from dwise_predict.recipe import ModelSettings
from dwise_predict.tiny import checkpoint_dir
from dwise_predict.workload.paper import Source, load_manifest
from dwise_predict.workload.paper.sources import load_rows
from dwise_predict.workload.paper.tokens import token_counter
from tests.datasets_on_disk import file_contents
from tests.hub import Fault, Hub


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import datasets.config

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets-cache")


def source(name: str, **changes: object) -> Source:
    found = next(source for source in load_manifest().sources if source.name == name)
    return found.model_copy(update={"revision": None, **changes})


@pytest.mark.parametrize("name", ["sharegpt", "mgsm", "math"])
def test_rows_come_from_the_files_of_one_commit(hub: Hub, name: str) -> None:
    asked = source(name)
    commit = hub.add(asked.repo, file_contents(asked, 30), "datasets")
    found = load_rows(asked)
    assert found.commit == commit
    assert len(found.rows) >= 30
    pinned = load_rows(source(name, revision=commit))
    assert list(pinned.rows) == list(found.rows)


def test_what_is_missing_is_said_precisely(hub: Hub) -> None:
    asked = source("gsm8k")
    with pytest.raises(HubError, match="openai/gsm8k does not exist at"):
        load_rows(asked)
    hub.add(asked.repo, file_contents(asked, 5), "datasets")
    with pytest.raises(HubError, match="has no revision 'v9'"):
        load_rows(source("gsm8k", revision="v9"))
    with pytest.raises(WorkloadError, match=r"has no main/new\.parquet: its files were renamed"):
        load_rows(source("gsm8k", files=("main/new.parquet",)))


def test_a_data_set_that_was_downloaded_is_there_without_the_hub(hub: Hub, monkeypatch) -> None:
    asked = source("gsm8k")
    hub.add(asked.repo, file_contents(asked, 5), "datasets")
    rows = list(load_rows(asked).rows)
    hub.faults.append(Fault("/", "drop"))
    assert list(load_rows(asked).rows) == rows


def test_prompts_are_measured_with_the_models_tokenizer(hub: Hub) -> None:
    hub.add("acme/dllm", {"tokenizer.json": (checkpoint_dir() / "tokenizer.json").read_bytes()})
    hub.add("acme/slow", {"vocab.json": b"{}"})
    own = ModelSettings(repo="builtin:tiny", architecture="SDARForCausalLM")
    count, expected = (
        token_counter(model) for model in (own.model_copy(update={"repo": "acme/dllm"}), own)
    )
    text = "The small ant walked near the old stone."
    assert count(text) == expected(text) > 5
    with pytest.raises(WorkloadError, match=r"acme/slow.* has no tokenizer\.json"):
        token_counter(own.model_copy(update={"repo": "acme/slow"}))
