"""What the learned baselines are trained on: prompts and how many tokens their answers had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dwise_predict.errors import BaselineError
from dwise_predict.profile import Profile
from dwise_predict.workload.schema import Request

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

MIN_REQUESTS = 16
"""Fewest training requests."""


@dataclass(frozen=True)
class LengthExamples:
    """N served requests with their prompts.

    A request that hit its budget counts with the tokens it had then: that is the length under which
    the scheduler met it, as in the paper, where 57% of requests use the full budget. Aborted
    requests, whose length nobody knows, are left out of training.
    """

    request_ids: tuple[str, ...]
    texts: tuple[str, ...]
    output_tokens: IntArray
    budget_tokens: IntArray
    rounds: IntArray

    def __len__(self) -> int:
        return len(self.texts)


def training_lengths(profile: Profile, requests: Sequence[Request]) -> LengthExamples:
    """The requests of the train split that were served to their end.

    Args:
        profile: finished, FCFS.
        requests: the workload it served, in any order; more may be given.

    Raises:
        BaselineError: a profiled request is missing or has another prompt, or too few are left.
    """
    table = profile.requests
    ids, splits = table["request_id"].to_pylist(), table["split"].to_pylist()
    reasons = table["finish_reason"].to_pylist()
    texts = prompts_of(profile, requests)
    rows = [
        i
        for i, (split, reason) in enumerate(zip(splits, reasons, strict=True))
        if split == "train" and reason != "abort"
    ]
    if len(rows) < MIN_REQUESTS:
        raise BaselineError(
            f"the profile has {len(rows)} training requests that were served to their end; "
            f"baselines need {MIN_REQUESTS}: profile a workload with a train split"
        )
    return LengthExamples(
        request_ids=tuple(ids[i] for i in rows),
        texts=tuple(texts[i] for i in rows),
        output_tokens=_column(profile, "output_tokens")[rows],
        budget_tokens=_column(profile, "budget_tokens")[rows],
        rounds=_column(profile, "rounds")[rows],
    )


def prompts_of(profile: Profile, requests: Sequence[Request]) -> list[str]:
    """Prompt of every row of the profile, which itself holds none.

    Raises BaselineError when a profiled request is missing or has another prompt.
    """
    known = {request.request_id: request for request in requests}
    texts = []
    for request_id, digest in zip(
        profile.requests["request_id"].to_pylist(),
        profile.requests["prompt_sha256"].to_pylist(),
        strict=True,
    ):
        request = known.get(request_id)
        if request is None:
            raise BaselineError(
                f"the workload lacks the profiled request {request_id!r}: give the workload.jsonl "
                "that was profiled"
            )
        if request.prompt_sha256 != digest:
            raise BaselineError(
                f"request {request_id!r} has another prompt in the workload than in the profile: "
                "give the workload.jsonl that was profiled"
            )
        texts.append(request.text)
    return texts


def _column(profile: Profile, name: str) -> IntArray:
    return np.asarray(profile.requests[name].to_numpy(), dtype=np.int64)
