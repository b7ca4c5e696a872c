"""The folder that a built workload is kept in: the requests, and where they come from."""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dwise_predict.errors import WorkloadError
from dwise_predict.files import write_text
from dwise_predict.recipe import ModelSettings
from dwise_predict.workload.jsonl import dump_jsonl
from dwise_predict.workload.paper.build import Drawn, PaperWorkload
from dwise_predict.workload.paper.manifest import Manifest, Source

REQUESTS_FILE = "workload.jsonl"
MANIFEST_FILE = "manifest.json"


def write_workload(
    workload: PaperWorkload, folder: Path, manifest: Manifest, model: ModelSettings, seed: int
) -> None:
    """Write workload.jsonl and then manifest.json into a new or empty folder.

    Raises WorkloadError when the folder holds something already.
    """
    refuse_filled(folder)
    text = dump_jsonl(workload.requests)
    record: dict[str, Any] = {
        "format": "dwise-workload",
        "format_version": 1,
        "name": manifest.name,
        "library_version": version("dwise-predict"),
        "seed": seed,
        "requests": {
            split: sum(request.split == split for request in workload.requests)
            for split in ("train", "eval")
        },
        "near_duplicates": {"measure": "Jaccard of five-word runs", "from": manifest.similarity},
        "measured_with": {"tokenizer": model.repo, "revision": model.revision},
        "sources": [_source(drawn) for drawn in workload.drawn],
        "left_out": dict(workload.skipped),
        "files": {REQUESTS_FILE: hashlib.sha256(text.encode()).hexdigest()},
    }
    write_text(folder / REQUESTS_FILE, text)
    write_text(folder / MANIFEST_FILE, json.dumps(record, indent=1, ensure_ascii=False) + "\n")


def refuse_filled(folder: Path) -> None:
    """Raise WorkloadError when ``folder`` is a file or holds something already."""
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise WorkloadError(f"{folder} exists and is not empty; choose another --out")


def _source(drawn: Drawn) -> dict[str, Any]:
    part = drawn.part
    where: dict[str, Any] = {}
    if isinstance(part, Source):
        where = {
            "repo": part.repo,
            "revision": part.revision,
            "commit": drawn.commit,
            "files": list(part.files),
        }
    return {
        "name": part.name,
        "category": part.category,
        "licence": part.licence,
        **where,
        "train": drawn.train,
        "eval": drawn.eval,
        "left_out_nearly_the_same": drawn.alike,
        "left_out_no_prompt": drawn.unusable,
        "prompts_sha256": drawn.sha256,
    }
