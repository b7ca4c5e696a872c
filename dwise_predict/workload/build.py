"""The requests a recipe asks for, each with its split."""

from __future__ import annotations

from pathlib import Path

from dwise_predict.progress import SILENT, Progress
from dwise_predict.recipe import ModelSettings, WorkloadSettings
from dwise_predict.workload.jsonl import read_jsonl
from dwise_predict.workload.schema import Request
from dwise_predict.workload.split import split_requests


def build_workload(
    settings: WorkloadSettings, model: ModelSettings, seed: int, progress: Progress = SILENT
) -> list[Request]:
    """Generate, read or download the workload; the same settings and seed give the same requests.

    ``model`` is whose tokenizer measures the long prompts of the paper's workload.
    Raises WorkloadError when a JSONL file is wrong or nothing can be held out of it, or data sets
    of the paper's workload cannot be had.
    """
    if settings.path is not None:
        return split_requests(read_jsonl(Path(settings.path)), settings.eval_fraction, seed)
    if settings.name == "paper":
        return _paper_workload(settings, model, seed, progress)
    from dwise_predict.workload.builtin import builtin_workload

    return builtin_workload(train=settings.train, eval=settings.eval, seed=seed)


def _paper_workload(
    settings: WorkloadSettings, model: ModelSettings, seed: int, progress: Progress
) -> list[Request]:
    from dwise_predict.workload.paper import build_paper_workload, load_manifest

    workload = build_paper_workload(
        load_manifest(),
        model,
        settings.train,
        settings.eval,
        seed,
        settings.skip_missing,
        progress=progress,
    )
    if workload.skipped:
        progress.note(workload.describe_skipped())
    return list(workload.requests)
