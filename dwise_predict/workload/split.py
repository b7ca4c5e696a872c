"""Prompt-disjoint split of a workload into training and evaluation requests."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from dwise_predict.errors import WorkloadError
from dwise_predict.workload.schema import Request, Split


def split_requests(requests: Sequence[Request], eval_fraction: float, seed: int) -> list[Request]:
    """Give every request without a split one, so that no prompt is on both sides.

    Identical prompts go together, and follow a twin whose split is given. The others are ordered
    by category and then by a seeded hash of the prompt, and evenly spaced ones are held out:
    every category is represented, and the result depends on neither file order nor machine.

    Raises WorkloadError when one prompt is given on both sides, or when all requests share one
    prompt, because then nothing can be held out.
    """
    sides = _given_sides(requests)
    categories = {
        request.prompt_sha256: request.category
        for request in reversed(requests)
        if request.prompt_sha256 not in sides
    }
    if categories:
        sides |= _held_out(categories, sides, eval_fraction, seed)
    return [
        request.model_copy(update={"split": sides[request.prompt_sha256]}) for request in requests
    ]


def _given_sides(requests: Sequence[Request]) -> dict[str, Split]:
    sides: dict[str, Split] = {}
    first: dict[str, str] = {}
    for request in requests:
        if request.split is None:
            continue
        digest = request.prompt_sha256
        if sides.setdefault(digest, request.split) != request.split:
            raise WorkloadError(
                f"requests {first[digest]!r} and {request.request_id!r} have the same prompt but "
                "different splits; training and evaluation prompts must differ"
            )
        first.setdefault(digest, request.request_id)
    return sides


def _held_out(
    categories: dict[str, str], given: dict[str, Split], eval_fraction: float, seed: int
) -> dict[str, Split]:
    """Sides of the prompts in ``categories`` (prompt hash to category)."""
    count, sides = len(categories), set(given.values())
    least = 0 if "eval" in sides else 1
    most = count if "train" in sides else count - 1
    if least > most:
        raise WorkloadError(
            "all requests have the same prompt, so none can be held out for evaluation; "
            "a workload needs at least two different prompts"
        )
    held = min(max(round(count * eval_fraction), least), most)
    order = sorted(categories, key=lambda digest: (categories[digest], _draw(digest, seed)))
    # Held-out ranks are those at which the rounded running share of `held` goes up by one.
    share = [(rank * held + count // 2) // count for rank in range(count + 1)]
    return {
        digest: "eval" if share[rank] < share[rank + 1] else "train"
        for rank, digest in enumerate(order)
    }


def _draw(digest: str, seed: int) -> str:
    return hashlib.sha256(f"{seed}:{digest}".encode()).hexdigest()
