"""Small folders with the files and columns of the public data sets, and rows of our own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dwise_predict.workload.paper import Manifest, Source
from dwise_predict.workload.paper.readers import READERS

Row = dict[str, Any]


def sentence(rng: Random, words: int = 14) -> str:
    """Words that no other text has in this order."""
    return " ".join(
        f"{rng.choice('bdfgklmnprst')}{rng.choice('aeiou')}{rng.randrange(999)}"
        for _ in range(words)
    )


MAKERS: dict[str, Callable[[Random], Row]] = {
    "sharegpt": lambda rng: {
        "id": str(rng.random()),
        "conversations": [
            {"from": "human", "value": sentence(rng)},
            {"from": "gpt", "value": sentence(rng)},
        ],
    },
    "mbpp": lambda rng: {
        "task_id": rng.randrange(10**6),
        "text": f"Write a function that {sentence(rng)}.",
        "code": "pass",
        "test_list": [f"assert f({rng.randrange(99)}) == {rng.randrange(99)}" for _ in range(3)],
    },
    "humaneval": lambda rng: {"task_id": "x", "prompt": f'def f(x):\n    """{sentence(rng)}"""\n'},
    "ifeval": lambda rng: {"key": rng.randrange(10**6), "prompt": f"{sentence(rng)} No commas."},
    "math": lambda rng: {
        "problem": f"Find ${sentence(rng)}$.",
        "level": rng.choice(["Level 5", "Level 5", "Level 3"]),
        "type": "Algebra",
        "solution": f"It is $\\boxed{{{rng.randrange(99)}}}$.",
    },
    "gsm8k": lambda rng: {
        "question": f"{sentence(rng)}?",
        "answer": f"It is so.\n#### {rng.randrange(99)}",
    },
    "mgsm": lambda rng: {"question": f"{sentence(rng)}?", "answer": str(rng.randrange(99))},
    "mmlu_pro": lambda rng: {
        "question_id": rng.randrange(10**6),
        "question": f"{sentence(rng)}?",
        "options": [sentence(rng, 3) for _ in range(10)],
        "answer_index": rng.randrange(10),
    },
    "arc": lambda rng: {
        "id": "x",
        "question": f"{sentence(rng)}?",
        "choices": {"text": [sentence(rng, 2) for _ in range(4)], "label": list("ABCD")},
        "answerKey": rng.choice("ABCD"),
    },
}  # fmt: skip
assert MAKERS.keys() == READERS.keys()


def file_contents(source: Source, rows: int, seed: int = 0) -> dict[str, bytes]:
    """Content of every file of ``source`` by name, ``rows`` rows in all."""
    rng = Random(f"{source.name}-{seed}")
    per_file = -(-rows // len(source.files))
    return {
        name: encoded(source, [MAKERS[source.reader](rng) for _ in range(per_file)])
        for name in source.files
    }


def encoded(source: Source, rows: list[Row]) -> bytes:
    """``rows`` in the format of the source's files."""
    if source.format == "parquet":
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist(rows), sink)
        return sink.getvalue().to_pybytes()
    if source.format == "json":
        if source.files[0].endswith(".jsonl"):
            return "".join(json.dumps(row) + "\n" for row in rows).encode()
        return json.dumps(rows).encode()
    return "".join("\t".join(row[c] for c in source.columns or ()) + "\n" for row in rows).encode()


def write_sources(
    folder: Path, manifest: Manifest, rows: int = 60, seed: int = 0
) -> dict[str, Path]:
    """A folder for each source of ``manifest``, by its name."""
    folders: dict[str, Path] = {}
    for source in manifest.sources:
        folders[source.name] = folder / source.name
        for name, content in file_contents(source, rows, seed).items():
            path = folder / source.name / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return folders
