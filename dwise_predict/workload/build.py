"""The requests a recipe asks for, each with its split."""

from __future__ import annotations

from pathlib import Path

from dwise_predict.recipe import WorkloadSettings
from dwise_predict.workload.jsonl import read_jsonl
from dwise_predict.workload.schema import Request
from dwise_predict.workload.split import split_requests


def build_workload(settings: WorkloadSettings, seed: int) -> list[Request]:
    """Generate or read the workload; the same settings and seed give the same requests.

    Raises WorkloadError when a JSONL file is wrong or nothing can be held out of it.
    """
    if settings.path is not None:
        return split_requests(read_jsonl(Path(settings.path)), settings.eval_fraction, seed)
    from dwise_predict.workload.builtin import builtin_workload

    return builtin_workload(train=settings.train, eval=settings.eval, seed=seed)
