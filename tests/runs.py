"""Runs of the real command line, and comparisons of what they leave behind."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dwise_predict.profile import LABEL_COLUMNS
from dwise_predict.tables import read_table
from tests.checkpoints import write_checkpoint

DWISE = Path(sys.executable).with_name("dwise")
DWISE_TRAIN = Path(sys.executable).with_name("dwise-train")

RECIPE = """\
name: random
model: {repo: checkpoint, architecture: SDARForCausalLM}
engine: {slots: 8, device: cpu, threads: 1}
decoding: {block_size: 4, budget_tokens: 24, parameters: {threshold: 0.5}}
profile: {shard_requests: 8}
predictors: {refiner: {epochs: 20, width: 32}}
"""


def environment(**changes: str) -> dict[str, str]:
    """One thread, and none of the variables that change how output looks."""
    looks = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
    kept = {name: value for name, value in os.environ.items() if name not in looks}
    return {**kept, "OMP_NUM_THREADS": "1", **changes}


def dwise(
    *arguments: object,
    cwd: Path,
    program: Path = DWISE,
    preexec: Callable[[], None] | None = None,
    variables: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end, with more environment variables where given."""
    return subprocess.run(
        [program, *map(str, arguments)],
        cwd=cwd,
        env=environment(**(variables or {})),
        preexec_fn=preexec,
        capture_output=True,
        text=True,
        timeout=300,
    )


def start_train(*arguments: object, cwd: Path) -> subprocess.Popen[str]:
    """Start ``dwise train`` and do not wait for it."""
    return subprocess.Popen(
        [DWISE, "train", *map(str, arguments)],
        cwd=cwd,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def write_study(folder: Path, requests: int = 72) -> Path:
    """A folder with a random checkpoint, ``recipe.yaml`` for it and ``prompts.jsonl``."""
    write_checkpoint(folder / "checkpoint", sharpness=4.0, context=512)
    (folder / "recipe.yaml").write_text(RECIPE)
    write_prompts(folder / "prompts.jsonl", requests)
    return folder


def write_prompts(path: Path, requests: int, categories: str = "abc") -> None:
    """Random short prompts, distinct, the first category with answers."""
    rng = random.Random(0)
    rows: list[dict[str, Any]] = []
    for index in range(requests):
        category = categories[index % len(categories)]
        words = " ".join(rng.choices(["one", "two", "three", "four"], k=rng.randint(1, 12)))
        rows.append({"prompt": f"{words} {index}", "category": category})
        if category == categories[0]:
            rows[-1]["answer"] = str(index)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def bundle_content(bundle: Path) -> dict[str, Any]:
    """Files of a bundle, without provenance, what the card says of it, and their hashes."""
    content: dict[str, Any] = {
        path.name: path.read_bytes() for path in bundle.iterdir() if path.name != "provenance.json"
    }
    content["README.md"] = re.sub(
        r"## Provenance\n.*?(?=## )", "", content["README.md"].decode(), flags=re.DOTALL
    )
    config = json.loads(content["config.json"])
    del config["files"]["provenance.json"], config["files"]["README.md"], config["digest"]
    content["config.json"] = config
    return content


def same_result(run: Path, other: Path) -> list[str]:
    """What differs between two runs, wall times and timestamps aside; empty when nothing does."""
    differences = [
        name
        for name in ("recipe.yaml", "workload.jsonl", "predictions.parquet")
        if (run / name).read_bytes() != (other / name).read_bytes()
    ]
    hidden = "profile/first_round.safetensors"
    if (run / hidden).read_bytes() != (other / hidden).read_bytes():
        differences.append(hidden)
    labels, other_labels = (
        read_table(folder / "profile" / "requests.parquet", columns=LABEL_COLUMNS)
        for folder in (run, other)
    )
    if not labels.equals(other_labels):
        differences.append("labels")
    content, other_content = bundle_content(run / "bundle"), bundle_content(other / "bundle")
    names = content.keys() | other_content.keys()
    return differences + [
        f"bundle/{name}" for name in sorted(names) if content.get(name) != other_content.get(name)
    ]
