"""What has to come from the Hugging Face Hub, or lie in its cache: the model and the data sets."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from dwise_predict.doctor.findings import Finding, missing, ok, warn
from dwise_predict.doctor.machine import weights_bytes
from dwise_predict.errors import DwiseError
from dwise_predict.hub.address import Address, is_repo
from dwise_predict.hub.client import Access, Snapshot, download
from dwise_predict.recipe import Recipe
from dwise_predict.workload.paper import Source, load_manifest

_ANSWER_SECONDS = 3.0
_ALL_SECONDS = 5.0
_COMPLETE = 0.95
"""Share of the weights that must be in the cache for it to count as complete."""


@dataclass(frozen=True)
class Remote:
    """Whether the Hub answers, and what was asked of it."""

    findings: tuple[Finding, ...]
    weights_cached: bool


def remote(recipe: Recipe, weights: bool = True) -> Remote:
    """Ask the Hub, all at once and for a few seconds, for what the recipe needs of it.

    Without a network, what lies complete in the cache counts. ``weights``: whether they are needed
    here, or the model's small files are enough.
    """
    model = is_repo(recipe.model.repo) and not Path(recipe.model.repo).is_dir()
    sources = load_manifest().sources if recipe.workload.name == "paper" else ()
    if not model and not sources:
        return Remote((_local(recipe),), weights_cached=True)
    trouble, token = _greet()
    access = Access(local_files_only=trouble is not None)
    jobs: dict[str, Callable[[], Snapshot]] = {
        source.name: _job(Address(source.repo, source.revision), source.files, access)
        for source in sources
    }
    if model:
        address = Address(recipe.model.repo, recipe.model.revision)
        jobs["model"] = lambda: download(
            address, "model", ["config.json"], lambda commit, sizes: None, access
        )
    answers = _together(jobs, _ALL_SECONDS)
    findings = []
    cached = not model
    if model:
        answer = answers["model"]
        cached = isinstance(answer, Snapshot) and _weights_cached(recipe, answer)
        findings += _model(recipe, answer, trouble is not None, cached if weights else None)
    else:
        findings.append(_local(recipe))
    if sources:
        findings += _sources(sources, answers, trouble is not None)
    needed = any(finding.status == "missing" for finding in findings)
    return Remote((_hub(trouble, needed), token, *findings), cached or not weights)


def _job(address: Address, files: tuple[str, ...], access: Access) -> Callable[[], Snapshot]:
    """Asks for a data set; its files are downloaded later, when the workload is built."""

    def check(commit: str, sizes: Mapping[str, int | None]) -> None:
        if lacking := [name for name in files if name not in sizes]:
            raise DwiseError(f"{commit} has no {', '.join(lacking)}: its files were renamed")

    # Offline the files themselves must be there; online their names are enough.
    wanted = list(files) if access.local_files_only else ["README.md"]

    def ask() -> Snapshot:
        snapshot = download(address, "dataset", wanted, check, access)
        if access.local_files_only:
            check(
                str(snapshot), {name: None for name in files if (snapshot.folder / name).exists()}
            )
        return snapshot

    return ask


def _greet() -> tuple[str | None, Finding]:
    """Why the Hub does not answer (None when it does), and what it says of the token."""
    from huggingface_hub import constants, get_session, get_token
    from huggingface_hub.errors import HfHubHTTPError

    token = get_token()
    told = ok("token", "none, which public models and data sets do not need")
    if token is not None:
        told = ok("token", "there is one")
    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE forbids to ask the Hub", told
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    # The base class is that of the HTTP library below, whichever it is.
    transport: tuple[type[Exception], ...] = (HfHubHTTPError.__bases__[0], OSError)
    try:
        answer = get_session().get(
            f"{constants.ENDPOINT}/api/whoami-v2", headers=headers, timeout=_ANSWER_SECONDS
        )
    except transport as error:
        return f"{constants.ENDPOINT} does not answer ({str(error) or type(error).__name__})", told
    if token is not None and answer.status_code == HTTPStatus.UNAUTHORIZED:
        told = missing(
            "token",
            f"{constants.ENDPOINT} does not know your token",
            "log in again with 'hf auth login', or set or unset HF_TOKEN",
        )
    return None, told


def _together(
    jobs: Mapping[str, Callable[[], Snapshot]], seconds: float
) -> dict[str, Snapshot | DwiseError]:
    """Run all jobs at once; those that take longer than ``seconds`` are not waited for."""
    answers: dict[str, Snapshot | Exception] = {}

    def run(name: str, job: Callable[[], Snapshot]) -> None:
        try:
            answers[name] = job()
        except Exception as error:  # told below, in the thread that asked
            answers[name] = error

    threads = [threading.Thread(target=run, args=job, daemon=True) for job in jobs.items()]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    told: dict[str, Snapshot | DwiseError] = {}
    for name in jobs:
        answer = answers.get(name, DwiseError(f"no answer within {seconds:g} s"))
        if isinstance(answer, Exception) and not isinstance(answer, DwiseError):
            raise answer
        told[name] = answer
    return told


def _hub(trouble: str | None, needed: bool) -> Finding:
    from huggingface_hub import constants

    if trouble is None:
        return ok("hub", f"{constants.ENDPOINT} answers")
    if not needed:
        return warn("hub", f"{trouble}; all that is needed is in the cache")
    return missing(
        "hub",
        trouble,
        "connect this machine, or set HF_ENDPOINT to a mirror it can reach; what is in the cache "
        f"({constants.HF_HUB_CACHE}) is used without the Hub",
    )


def _local(recipe: Recipe) -> Finding:
    if recipe.model.repo.startswith("builtin:"):
        return ok("model", f"{recipe.model.repo} comes with the package")
    folder = Path(recipe.model.repo).expanduser()
    if not folder.is_dir():
        return missing(
            "model",
            f"{recipe.model.repo} is neither a folder nor a repository of the form ORG/NAME",
            "correct model.repo",
        )
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return missing(
            "model", f"{folder}: config.json cannot be read ({error})", "correct model.repo"
        )
    return _checkpoint(recipe, config) or ok("model", f"{folder}")


def _model(
    recipe: Recipe, answer: Snapshot | DwiseError, offline: bool, cached: bool | None
) -> list[Finding]:
    """Repository, pin and configuration of a model of the Hub.

    ``cached``: whether its weights are in the cache; None where they are not needed.
    """
    name = str(Address(recipe.model.repo, recipe.model.revision))
    if isinstance(answer, DwiseError):
        if offline:
            reason, remedy = (
                f"{name} is not in the cache, and the Hub cannot be asked",
                ("connect this machine, or copy the checkpoint here and --set model.repo=DIR"),
            )
        else:
            reason, remedy = str(answer), "correct model.repo or model.revision, or your access"
        return [missing("model", reason, remedy)]
    config = json.loads((answer.folder / "config.json").read_text(encoding="utf-8"))
    if offline and cached is False:
        found = missing(
            "model",
            f"the weights of {name} are not complete in the cache, and the Hub cannot be asked",
            "connect this machine, or copy the checkpoint here and --set model.repo=DIR",
        )
    else:
        place = {None: "not needed here", True: "in the cache", False: "to be downloaded"}[cached]
        found = _checkpoint(recipe, config) or ok("model", f"{name}, weights {place}")
    pin = (
        ok("revision", recipe.model.revision or "")
        if recipe.model.pinned
        else warn(
            "revision",
            f"{recipe.model.revision or 'the newest'} can move; labels and predictors are valid "
            "for one commit",
            f"--set model.revision={answer.commit}",
        )
    )
    return [found, pin]


def _checkpoint(recipe: Recipe, config: Mapping[str, Any]) -> Finding | None:
    """What config.json says against the recipe; None when nothing."""
    architectures = config.get("architectures") or ["(none)"]
    if architectures[0] != recipe.model.architecture:
        return missing(
            "model",
            f"{recipe.model.repo} is a {architectures[0]}, the recipe expects "
            f"{recipe.model.architecture}",
            "correct model.repo, or model.architecture and the decoding settings",
        )
    overrides = recipe.engine.sglang.config_overrides if recipe.engine.sglang else {}
    if recipe.decoding.algorithm == "JointThresholdInDel":
        lacking = [
            key
            for key in ("delete_token_id", "split_token_id")
            if config.get(key) is None and key not in overrides
        ]
        if lacking:
            return missing(
                "model",
                f"config.json of {recipe.model.repo} has no {' and no '.join(lacking)}, without "
                "which SGLang does not decode with insertion and deletion",
                f"look the ids up in its tokenizer and --set engine.sglang.config_overrides."
                f"{lacking[0]}=ID",
            )
    return None


def _weights_cached(recipe: Recipe, snapshot: Snapshot) -> bool:
    wanted = weights_bytes(recipe)
    there = sum(path.stat().st_size for path in snapshot.folder.glob("*.safetensors"))
    return there > 0 and (wanted is None or there >= _COMPLETE * wanted)


def _sources(
    sources: Sequence[Source], answers: Mapping[str, Snapshot | DwiseError], offline: bool
) -> list[Finding]:
    absent = {s.name: a for s in sources if isinstance(a := answers[s.name], DwiseError)}
    elsewhere = (
        "on a machine with a network: dwise workload build paper --out DIR, copy DIR here and add "
        "--workload DIR/workload.jsonl"
    )
    if not absent:
        return [ok("data sets", f"all {len(sources)} are there")]
    if offline:
        return [
            missing(
                "data sets",
                f"{len(absent)} of {len(sources)} are not in the cache: {', '.join(absent)}",
                elsewhere,
            )
        ]
    return [
        missing(
            "data sets",
            f"{name}: {reason}",
            "--set workload.skip_missing=true goes on without it, and "
            "dwise workload build paper --data takes your own copy",
        )
        for name, reason in absent.items()
    ]
