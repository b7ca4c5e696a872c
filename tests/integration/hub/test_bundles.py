"""Bundles through the Hub, with the real client against a hub on loopback."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest

from dwise_predict.bundle import PredictorBundle
from dwise_predict.bundle.schema import FILES
from dwise_predict.errors import BundleError, HubError
from tests.hub import Fault, Hub
from tests.synthetic import synthetic_examples

REPO = "acme/dwise-dllm-mini"
UNSEEN = synthetic_examples(50, seed=9, hidden=8)
Pull: TypeAlias = Callable[..., PredictorBundle]


@pytest.fixture
def pushed(hub: Hub, made: Path) -> str:
    """Commit of a published bundle."""
    return PredictorBundle.load(made).push_to_hub(REPO).commit


@pytest.fixture
def pull(tmp_path: Path) -> Pull:
    """Pull into a cache that nothing was downloaded to."""

    def pull(repo: str = REPO, **arguments: object) -> PredictorBundle:
        return PredictorBundle.from_pretrained(repo, cache_dir=tmp_path / "fresh", **arguments)

    return pull


def predictions(bundle: PredictorBundle) -> list[np.ndarray]:
    remaining = bundle.refiner(UNSEEN.hidden, UNSEEN.prompt_tokens, UNSEEN.budget_tokens)
    return [
        bundle.admission.rounds_batch(UNSEEN.words, UNSEEN.newlines, UNSEEN.prompt_tokens),
        remaining.mean().numpy(),
        remaining.survival().numpy(),
        remaining.quantile(0.9).numpy(),
    ]


def test_a_round_trip_predicts_the_same_bit_for_bit(made: Path, pushed: str, pull: Pull) -> None:
    trained, pulled = PredictorBundle.load(made), pull()
    assert pulled.source == f"{REPO}@{pushed}"
    for before, after in zip(predictions(trained), predictions(pulled), strict=True):
        np.testing.assert_array_equal(before, after)
    assert pulled.files == trained.files
    assert pulled.verify() == []


def test_a_second_pull_downloads_nothing(hub: Hub, pushed: str, pull: Pull) -> None:
    pull()
    hub.log.clear()
    pull()
    assert all("/resolve/" not in path and "/cdn/" not in path for _, path, _ in hub.log)


def test_what_was_pulled_once_loads_without_a_network(
    hub: Hub, pushed: str, pull: Pull, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(HubError, match=r"not complete in the cache.*dwise pull"):
        pull(local_files_only=True)
    pull()
    hub.log.clear()
    assert pull(local_files_only=True).source == f"{REPO}@{pushed}"
    assert pull(local_files_only=True, revision=pushed).source == f"{REPO}@{pushed}"
    assert hub.log == []
    hub.faults = [Fault("", "drop")]
    with caplog.at_level(logging.WARNING):
        assert pull().source == f"{REPO}@{pushed}"
    assert "comes from the cache" in caplog.text


def test_revisions_are_branches_tags_and_commits(
    hub: Hub, made: Path, pushed: str, pull: Pull, tmp_path: Path
) -> None:
    other = shutil.copytree(made, tmp_path / "other")
    bundle = PredictorBundle.load(other)
    repo = hub.repo(REPO)
    first = bundle.push_to_hub(REPO, revision="v1", commit_message="same files")
    assert first.commit == pushed  # nothing changed, so there is no new commit
    repo.tags["paper"] = pushed
    newer = {**repo.commits[pushed], "notes.md": b"new"}
    head = repo.commit("main", newer)
    assert pull().source == f"{REPO}@{head}"
    for revision in ("v1", "paper", pushed):
        assert pull(revision=revision).source == f"{REPO}@{pushed}"
    with pytest.raises(HubError, match="has no revision 'v9'; it has: main, paper, v1"):
        pull(revision="v9")


def test_only_files_of_a_bundle_are_downloaded(
    hub: Hub, pushed: str, pull: Pull, tmp_path: Path
) -> None:
    repo = hub.repo(REPO)
    repo.commit("main", {**repo.commits[pushed], "notes.pt": b"pickle", "a/config.json": b"{}"})
    pull()
    names = [path.name for path in (tmp_path / "fresh").glob("models--*/snapshots/*/*")]
    assert sorted(names) == sorted([*FILES, "config.json"])


def test_private_repositories_need_a_token(hub: Hub, made: Path, pull: Pull) -> None:
    PredictorBundle.load(made).push_to_hub(REPO, private=True)
    assert hub.repo(REPO).private
    for token in (False, "bob-token"):
        with pytest.raises(HubError, match=r"does not exist.*or is private.*hf auth login"):
            pull(token=token)
    with pytest.raises(HubError, match="does not know your token"):
        pull(token="expired")
    assert pull(token="ann-token").metrics.n_eval == 40


def test_missing_repositories_and_what_is_no_bundle_are_named(hub: Hub, pull: Pull) -> None:
    with pytest.raises(HubError, match="acme/dwise-none does not exist at http"):
        pull("acme/dwise-none")
    hub.add("acme/llm", {"config.json": b"{}", "model.safetensors": b"weights"})
    with pytest.raises(HubError, match=r"no predictor bundle: it has no admission\.txt"):
        pull("acme/llm")
    assert not any("/resolve/" in path for _, path, _ in hub.log)


def test_files_of_absurd_size_are_not_downloaded(hub: Hub, pushed: str, pull: Pull) -> None:
    repo = hub.repo(REPO)
    repo.commit("main", {**repo.commits[pushed], "metrics.json": b" " * (5 * 2**20)})
    hub.log.clear()
    with pytest.raises(HubError, match=r"metrics\.json has 5242880 bytes.*not downloaded"):
        pull()
    assert not any("/resolve/" in path for _, path, _ in hub.log)


def test_publishing_needs_a_token_and_rights(
    hub: Hub, made: Path, pushed: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bundle = PredictorBundle.load(made)
    for repo in (REPO, "acme/dwise-new"):
        with pytest.raises(HubError, match="has no right to do this there"):
            bundle.push_to_hub(repo, token="bob-token")
    with pytest.raises(HubError, match="does not know your token"):
        bundle.push_to_hub(REPO, token="expired")
    with pytest.raises(HubError, match="needs a token: log in"):
        bundle.push_to_hub(REPO, token=False)
    with pytest.raises(HubError, match="push to acme/dwise-tiny"):
        bundle.push_to_hub("acme/tiny")
    with pytest.raises(HubError, match="expected ORG/NAME"):
        bundle.push_to_hub("dwise-tiny")
    assert ("models", "acme/dwise-new") not in hub.repos


def test_a_connection_lost_once_is_resumed(hub: Hub, pushed: str, pull: Pull) -> None:
    hub.faults = [Fault("/cdn/", "cut", times=1, method="GET")]
    assert pull().source == f"{REPO}@{pushed}"
    assert sum("/cdn/" in path for _, path, _ in hub.log) == 2


def test_a_connection_lost_for_good_is_said_and_the_next_pull_continues(
    hub: Hub, pushed: str, pull: Pull
) -> None:
    hub.faults = [Fault("/cdn/", "cut", method="GET")]
    with pytest.raises(HubError, match=r"connection to http.* failed.*complete files are kept"):
        pull()
    hub.faults, before = [], len(hub.log)
    assert pull().source == f"{REPO}@{pushed}"
    fetched = {path.split("/")[-1] for m, path, _ in hub.log[before:] if m == "GET"}
    assert "admission.txt" not in fetched


def test_a_truncated_download_is_said(hub: Hub, pushed: str, pull: Pull) -> None:
    hub.faults = [Fault("/cdn/", "short", times=1, method="GET")]
    with pytest.raises(HubError, match=r"was cut short.*run the command again"):
        pull()
    assert pull().source == f"{REPO}@{pushed}"


def test_a_wrong_file_is_fetched_once_more_and_then_refused(
    hub: Hub, pushed: str, pull: Pull
) -> None:
    hub.faults = [Fault("/cdn/", "flip", times=1, method="GET")]
    assert pull().verify() == []
    hub.faults = [Fault("admission.txt", "flip", method="GET")]
    # The cache is good, so nothing is asked.
    assert pull().verify() == []
    repo = hub.repo(REPO)
    damaged = bytearray(repo.commits[pushed]["admission.txt"])
    damaged[len(damaged) // 2] ^= 1
    repo.commit("main", {**repo.commits[pushed], "admission.txt": bytes(damaged)})
    hub.faults = []
    with pytest.raises(BundleError, match=r"admission\.txt.*downloaded twice.*tell its owner"):
        pull()
    with pytest.raises(BundleError, match="get it again without local_files_only"):
        pull(local_files_only=True)


def test_a_damaged_cache_heals(hub: Hub, pushed: str, pull: Pull, tmp_path: Path) -> None:
    pull()
    blob = next((tmp_path / "fresh").rglob("refiner.safetensors")).resolve()
    blob.write_bytes(blob.read_bytes()[:-1] + b"\x00")
    assert pull().verify() == []


@pytest.mark.parametrize("fault", ["drop", 500, 503, 429])
def test_a_broken_hub_is_said(hub: Hub, pushed: str, pull: Pull, fault: object) -> None:
    hub.faults = [Fault("/api/models/", fault)]
    expected = "connection to" if fault == "drop" else f"answered HTTP {fault}"
    with pytest.raises(HubError, match=expected):
        pull()


def test_an_upload_that_breaks_is_said_and_continued(hub: Hub, made: Path) -> None:
    bundle = PredictorBundle.load(made)
    hub.faults = [Fault("/commit/", "drop", method="POST", times=1)]
    with pytest.raises(HubError, match="connection to"):
        bundle.push_to_hub(REPO)
    bundle.push_to_hub(REPO)
    assert sum(method == "PUT" for method, _, _ in hub.log) == 1
    assert set(bundle.files) < set(hub.repo(REPO).commits[hub.repo(REPO).branches["main"]])


def test_nothing_private_is_published(
    hub: Hub, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = PredictorBundle.load(made)
    monkeypatch.setattr("socket.gethostname", lambda: "dllm-mini")
    with pytest.raises(BundleError, match="would publish this machine's host 'dllm-mini'"):
        bundle.push_to_hub(REPO)
    assert hub.repos == {}
