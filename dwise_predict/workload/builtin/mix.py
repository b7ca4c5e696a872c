"""Composition of the built-in workload (the paper's Table 1) and its three-way prompt partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from dwise_predict.errors import WorkloadError
from dwise_predict.workload.builtin.chat import chat_task
from dwise_predict.workload.builtin.choice import hard_multiple_choice_task, multiple_choice_task
from dwise_predict.workload.builtin.code import code_task
from dwise_predict.workload.builtin.instruction import instruction_task
from dwise_predict.workload.builtin.long_context import long_context_task
from dwise_predict.workload.builtin.math import math_task, multilingual_math_task
from dwise_predict.workload.builtin.task import Task
from dwise_predict.workload.schema import Message, Request, Split

GENERATORS: dict[str, Callable[[Random], Task]] = {
    "chat": chat_task,
    "instruction": instruction_task,
    "code": code_task,
    "math": math_task,
    "multilingual_math": multilingual_math_task,
    "multiple_choice": multiple_choice_task,
    "hard_multiple_choice": hard_multiple_choice_task,
    "long_context": long_context_task,
}

# Serving requests of the paper's Table 1, its data sets summed into our categories.
TABLE_1 = {
    "chat": 1085,
    "instruction": 296,
    "code": 505 + 87,
    "math": 421 + 345,
    "multilingual_math": 258,
    "multiple_choice": 312,
    "hard_multiple_choice": 637,
    "long_context": 150,
}

DATASET = "builtin-v1"
_TRIES = 200


def partition(prompt_sha256: str) -> Split | None:
    """Which set a prompt belongs to, by its hash alone: training, evaluation, or None.

    A quarter of all possible prompts each goes to the two splits of built-in workloads, the rest
    to the corpus of the embedded model, so that no seed can put one prompt into two sets.
    """
    return (None, None, "train", "eval")[int(prompt_sha256[:8], 16) % 4]


def composition(total: int) -> dict[str, int]:
    """Requests a category in a workload of ``total``, in Table 1's proportions.

    Largest remainders get the odd requests, so that the counts always add up.
    """
    whole = sum(TABLE_1.values())
    shares = {category: total * count / whole for category, count in TABLE_1.items()}
    counts = {category: int(share) for category, share in shares.items()}
    by_remainder = sorted(shares, key=lambda c: (counts[c] - shares[c], c))
    for category in by_remainder[: total - sum(counts.values())]:
        counts[category] += 1
    return counts


def builtin_workload(train: int, eval: int, seed: int) -> list[Request]:
    """Generate a workload of distinct prompts in Table 1's proportions.

    Args:
        train: training requests.
        eval: evaluation requests; their prompts never occur in training, whatever the seeds.
        seed: the same seed gives the same requests in the same order.

    Returns:
        Training requests, then evaluation requests, each shuffled over categories.

    Raises:
        WorkloadError: when a category runs out of distinct prompts.
    """
    rng = Random(f"dwise-builtin-{seed}")
    requests: list[Request] = []
    sizes: tuple[tuple[Split, int], ...] = (("train", train), ("eval", eval))
    for split, size in sizes:
        chosen = [
            (category, task)
            for category, count in composition(size).items()
            for task in _distinct(category, split, count, rng)
        ]
        rng.shuffle(chosen)
        requests += [
            _request(f"{split}-{index:05d}", category, task, split)
            for index, (category, task) in enumerate(chosen)
        ]
    return requests


def _request(request_id: str, category: str, task: Task, split: Split | None) -> Request:
    return Request(
        request_id=request_id,
        messages=(Message(role="user", content=task.prompt),),
        category=category,
        dataset=DATASET,
        split=split,
        answer=task.answer,
    )


def _distinct(category: str, split: Split, count: int, rng: Random) -> Iterator[Task]:
    seen: set[str] = set()
    tries = 0
    while len(seen) < count:
        task = GENERATORS[category](rng)
        digest = _request("x", category, task, None).prompt_sha256
        if digest not in seen and partition(digest) == split:
            seen.add(digest)
            tries = 0
            yield task
        else:
            tries += 1
            if tries > _TRIES:
                raise WorkloadError(
                    f"built-in workload: category {category!r} has no more than {len(seen)} "
                    f"distinct {split} prompts, {count} were asked for; ask for fewer requests"
                )
