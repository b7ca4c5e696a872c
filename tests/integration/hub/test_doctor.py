"""What the doctor asks of the Hub, against a Hub on loopback."""

from __future__ import annotations

import json

import pytest

from dwise_predict.doctor.findings import Finding
from dwise_predict.doctor.remote import remote
from dwise_predict.recipe import Recipe, load_recipe
from dwise_predict.workload.paper import load_manifest
from tests.datasets_on_disk import file_contents
from tests.hub import Fault, Hub, Repo

CONFIG = {"architectures": ["LLaDA2MoeModelLM"], "hidden_size": 2048}


@pytest.fixture(autouse=True)
def unpinned(monkeypatch: pytest.MonkeyPatch) -> None:
    """The data sets of this hub have commits of their own."""
    manifest = load_manifest()
    sources = tuple(s.model_copy(update={"revision": None}) for s in manifest.sources)
    monkeypatch.setattr(
        "dwise_predict.doctor.remote.load_manifest",
        lambda: manifest.model_copy(update={"sources": sources}),
    )


def model(hub: Hub, **config: object) -> str:
    files = {"config.json": json.dumps(CONFIG | config).encode(), "a.safetensors": b"x" * 1000}
    return hub.add("inclusionAI/LLaDA2.1-mini", files)


def data_sets(hub: Hub) -> None:
    for source in load_manifest().sources:
        files = file_contents(source, len(source.files)) | {"README.md": b"a card"}
        hub.add(source.repo, files, "datasets")


def recipe(*overrides: str) -> Recipe:
    return load_recipe("llada2.1-mini", ["model.revision=null", *overrides])


def found(*overrides: str) -> dict[str, Finding]:
    """Findings by check; of several with one name, the last."""
    return {finding.check: finding for finding in remote(recipe(*overrides)).findings}


def test_all_there(hub: Hub) -> None:
    commit = model(hub)
    data_sets(hub)
    findings = found()
    assert [f.status for f in findings.values()] == ["ok", "ok", "ok", "warn", "ok"]
    assert hub.url in findings["hub"].message
    assert findings["model"].message.endswith("weights to be downloaded")
    assert findings["revision"].remedy == f"--set model.revision={commit}"
    assert found(f"model.revision={commit}")["revision"].status == "ok"
    assert findings["data sets"].message == "all 9 are there"
    # Names are enough: nothing large was downloaded.
    assert not any(".parquet" in path or ".safetensors" in path for _, path, _ in hub.log)


def test_a_revision_or_repository_that_does_not_exist(hub: Hub) -> None:
    data_sets(hub)
    assert "does not exist at" in found()["model"].message
    model(hub)
    missing = found("model.revision=v7")["model"]
    assert missing.status == "missing"
    assert "has no revision 'v7'" in missing.message


def test_a_repository_one_may_not_read(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    data_sets(hub)
    model(hub)
    repo = hub.repo("inclusionAI/LLaDA2.1-mini")
    assert isinstance(repo, Repo)
    repo.private = True
    monkeypatch.setenv("HF_TOKEN", "bob-token")
    refused = found()
    assert refused["model"].status == "missing"
    assert "log in with 'hf auth login'" in refused["model"].message
    assert refused["token"].status == "ok"


def test_a_token_that_the_hub_does_not_know(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    model(hub)
    data_sets(hub)
    monkeypatch.setenv("HF_TOKEN", "yesterday's")
    refused = found()
    assert refused["hub"].status == "ok"
    assert refused["token"].status == "missing"
    assert "hf auth login" in refused["token"].remedy


def test_another_architecture(hub: Hub) -> None:
    data_sets(hub)
    model(hub, architectures=["LlamaForCausalLM"])
    wrong = found()["model"]
    assert wrong.status == "missing"
    assert "is a LlamaForCausalLM, the recipe expects LLaDA2MoeModelLM" in wrong.message


def test_insertion_and_deletion_need_their_tokens(hub: Hub) -> None:
    data_sets(hub)
    model(hub)
    indel = ["decoding.algorithm=JointThresholdInDel"]
    lacking = found(*indel)["model"]
    assert lacking.status == "missing"
    assert "no delete_token_id and no split_token_id" in lacking.message
    given = [
        "engine.sglang.config_overrides.delete_token_id=5",
        "engine.sglang.config_overrides.split_token_id=6",
    ]
    assert found(*indel, *given)["model"].status == "ok"
    model(hub, delete_token_id=5, split_token_id=6)
    assert found(*indel)["model"].status == "ok"


def test_missing_and_renamed_data_sets_are_named(hub: Hub) -> None:
    model(hub)
    for source in load_manifest().sources:
        if source.name == "mbpp":
            continue
        files = file_contents(source, len(source.files)) | {"README.md": b"a card"}
        if source.name == "ifeval":
            files = {"README.md": b"a card", "renamed.jsonl": b"{}"}
        hub.add(source.repo, files, "datasets")
    missing = [f for f in remote(recipe()).findings if f.check == "data sets"]
    assert [f.status for f in missing] == ["missing", "missing"]
    assert "mbpp: the data set google-research-datasets/mbpp does not exist" in missing[0].message
    assert "ifeval" in missing[1].message
    assert "has no ifeval_input_data.jsonl: its files were renamed" in missing[1].message


def test_what_is_in_the_cache_needs_no_hub(hub: Hub) -> None:
    from dwise_predict.hub.address import Address
    from dwise_predict.hub.client import Access, download
    from dwise_predict.workload.paper.sources import load_rows

    model(hub)
    data_sets(hub)
    download(Address("inclusionAI/LLaDA2.1-mini"), "model", ["*"], lambda c, s: None, Access())
    for source in load_manifest().sources:
        load_rows(source.model_copy(update={"revision": None}))
    hub.faults.append(Fault("/", "drop"))
    offline = found("model.weights_gb=1e-6")
    assert {name: f.status for name, f in offline.items()} == {
        "hub": "warn",
        "token": "ok",
        "model": "ok",
        "revision": "warn",
        "data sets": "ok",
    }
    assert "all that is needed is in the cache" in offline["hub"].message
    partly = found("model.weights_gb=1")  # more than the cache holds
    assert partly["model"].status == "missing"
    assert (
        "weights" in partly["model"].message
        and "not complete in the cache" in partly["model"].message
    )
    assert partly["hub"].status == "missing"


def test_a_hub_that_does_not_answer_in_time(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    from dwise_predict.doctor import remote as module

    model(hub)
    data_sets(hub)
    waiting = threading.Event()
    plain = module.download

    def slow(address, *rest):
        if address.repo == "google/IFEval":
            waiting.wait(30)
        return plain(address, *rest)

    monkeypatch.setattr(module, "download", slow)
    monkeypatch.setattr(module, "_ALL_SECONDS", 1.0)
    late = found()["data sets"]
    waiting.set()
    assert late.status == "missing"
    assert late.message == "ifeval: no answer within 1 s"
