"""The embedded model's training corpus: built from generators and from what a machine has on disk.

Four sources, all turned into prompt and answer: the built-in generators (most of it), docstrings
of the Python standard library, documentation below ``/usr/share/doc``, and, where the folder is
given, public data sets (GSM8K, MBPP, MGSM). Prompts that :func:`partition` gives to a workload are
left out of every source.
"""

from __future__ import annotations

import ast
import csv
import gzip
import hashlib
import json
import re
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random

from dwise_predict.workload.builtin import GENERATORS, partition
from dwise_predict.workload.builtin.long_context import long_context_task
from dwise_predict.workload.builtin.task import Task
from dwise_predict.workload.builtin.vocabulary import ANIMALS, FOODS, NAMES, OBJECTS
from dwise_predict.workload.schema import Message, Request

# Share of each generator in the corpus. Unlike the workload's mix, it leans towards what takes
# most training: arithmetic, copying and retrieval.
GENERATED_SHARES = {
    "chat": 0.10,
    "instruction": 0.11,
    "code": 0.05,
    "math": 0.24,
    "multilingual_math": 0.10,
    "multiple_choice": 0.10,
    "hard_multiple_choice": 0.16,
    "long_context": 0.08,
    "copying": 0.06,
}
REAL_SHARE = 0.03
_MAX_ANSWER_CHARS = 420


@dataclass(frozen=True)
class Example:
    """One prompt with its answer."""

    prompt: str
    answer: str
    source: str


def build_corpus(size: int, seed: int, data_dir: Path | None = None) -> list[Example]:
    """Build ``size`` shuffled examples.

    Args:
        size: examples wanted.
        seed: the same seed on the same machine gives the same corpus.
        data_dir: folder with ``gsm8k``, ``mbpp`` and ``mgsm`` subfolders, or None.
    """
    rng = Random(f"dwise-corpus-{seed}")
    real = [e for e in _real_examples(data_dir) if _in_corpus(e.prompt)]
    rng.shuffle(real)
    real_count = min(int(size * REAL_SHARE), 3 * len(real))
    examples = [real[i % len(real)] for i in range(real_count)]
    generated = size - real_count
    for category, share in GENERATED_SHARES.items():
        examples += _generated_examples(category, round(generated * share), rng)
    rng.shuffle(examples)
    return examples


def corpus_digest(examples: Iterable[Example]) -> str:
    """Hex digest of a corpus: names exactly what a checkpoint was trained on."""
    digest = hashlib.sha256()
    for example in examples:
        digest.update(f"{example.prompt}\x1f{example.answer}\x1e".encode())
    return digest.hexdigest()


def _in_corpus(prompt: str) -> bool:
    request = Request(request_id="x", messages=(Message(role="user", content=prompt),))
    return partition(request.prompt_sha256) is None


def _generated_examples(category: str, count: int, rng: Random) -> Iterator[Example]:
    made = 0
    while made < count:
        if category == "long_context":
            # Copying from afar is learned near first: a full prompt costs as much as twenty others.
            low, high = rng.choice(((0, 4), (0, 4), (2, 12), (2, 12), (8, 30), (8, 30), (30, 91)))
            task = long_context_task(rng, sentences=rng.randrange(low, high))
        elif category == "copying":
            task = _copying_task(rng)
        else:
            task = GENERATORS[category](rng)
        if _in_corpus(task.prompt):
            made += 1
            yield Example(task.prompt, task.reference, category)


def _copying_task(rng: Random) -> Task:
    """Practice for retrieval: nearly every answer token must be fetched from the prompt.

    Not part of any workload. Without it, a model of this size spends most of its training before
    it learns to copy at all.
    """
    kind = rng.randrange(3)
    if kind == 0:
        pool = ANIMALS + OBJECTS + FOODS + NAMES
        items = [
            rng.choice(pool) if rng.random() < 0.7 else str(rng.randrange(1, 10_000))
            for _ in range(rng.randrange(2, 22))
        ]
        text = rng.choice((" ", ", ")).join(items)
        return Task(f"{rng.choice(('Copy', 'Say again', 'Repeat'))}: {text}", text)
    people = rng.sample(NAMES, rng.randrange(2, 9))
    codes = {name: str(rng.randrange(10, 10_000)) for name in people}
    facts = [f"The code of {name} is {code}." for name, code in codes.items()]
    asked = rng.sample(people, rng.randrange(1, len(people) + 1))
    names = ", ".join(asked)
    if kind == 1:
        answer = ", ".join(codes[name] for name in asked)
        return Task(f"{' '.join(facts)} Codes of {names}? Only the codes.", answer)
    answer = "\n".join(f"The code of {name} is {codes[name]}." for name in asked)
    return Task(f"{' '.join(facts)} Codes of {names}?", answer)


def _real_examples(data_dir: Path | None) -> list[Example]:
    examples = [*_standard_library(), *_documentation()]
    if data_dir is not None:
        examples += _public_data(data_dir)
    return [
        e
        for e in examples
        if 0 < len(e.answer) <= _MAX_ANSWER_CHARS and len(e.prompt) <= 2 * _MAX_ANSWER_CHARS
    ]


def _standard_library() -> Iterator[Example]:
    root = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(root.glob("*.py")):
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue  # The standard library keeps a few files of deliberately broken source.
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                text = ast.get_docstring(node)
                if text and not node.name.startswith("_"):
                    summary = " ".join(text.split("\n\n")[0].split())
                    kind = "class" if isinstance(node, ast.ClassDef) else "function"
                    yield Example(
                        f"What is the Python {kind} {path.stem}.{node.name} for?",
                        summary,
                        "standard_library",
                    )


def _documentation() -> Iterator[Example]:
    for path in sorted(Path("/usr/share/doc").glob("*/README*")):
        if not path.is_file() or path.stat().st_size > 200_000:
            continue
        raw = path.read_bytes()
        try:
            text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
        except (OSError, UnicodeDecodeError):
            continue  # Old documentation comes in other encodings; nothing of it is needed.
        prose = " ".join(text.split())
        sentences = [s for s in re.split(r"(?<=[a-z]\.) (?=[A-Z])", prose) if 30 < len(s) < 250]
        for first, second in pairwise(sentences):
            yield Example(f"Continue this text: {first}", second, "documentation")


def _public_data(data_dir: Path) -> Iterator[Example]:
    for line in _lines(data_dir / "gsm8k" / "train.jsonl"):
        row = json.loads(line)
        answer = re.sub(r"<<.*?>>", "", row["answer"]).replace("####", "The answer is")
        yield Example(row["question"], answer, "gsm8k")
    for line in _lines(data_dir / "mbpp" / "mbpp_first700.jsonl"):
        row = json.loads(line)
        yield Example(row["text"], row["code"].replace("\r\n", "\n"), "mbpp")
    for path in sorted((data_dir / "mgsm").glob("mgsm_*.tsv")):
        for row in csv.reader(_lines(path), delimiter="\t", quoting=csv.QUOTE_NONE):
            if len(row) == 2:
                yield Example(row[0], row[1], "mgsm")


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
