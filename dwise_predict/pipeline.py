"""Everything behind ``dwise train``: workload, profile, predictors, predictions, report.

Stages talk through files in one run folder. Each file or folder is either complete or absent, so
a run that was killed at any instant continues at the stage, and within the profile at the shard,
that was not finished, and ends with the same bytes as an undisturbed run.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dwise_predict.bundle import Metrics, PredictorBundle
from dwise_predict.bundle.store import can_hold_bundle
from dwise_predict.engines.sglang_engine.fleet import HERE, Fleet
from dwise_predict.errors import DwiseError, RunError, WorkloadError
from dwise_predict.evaluation.changes import Refresh, read_refresh
from dwise_predict.evaluation.outcomes import Outcomes, outcomes
from dwise_predict.evaluation.report import write_report
from dwise_predict.evaluation.stability import Stability, read_stability
from dwise_predict.files import locked, make_folder, write_bytes, write_text
from dwise_predict.profile import read_profile
from dwise_predict.profile.records import RUN_FILE
from dwise_predict.profile_repo import copy_profile
from dwise_predict.profiling import profile_workload
from dwise_predict.progress import SILENT, Progress
from dwise_predict.recipe import (
    PredictorSettings,
    Recipe,
    dump_recipe,
    load_recipe,
    recipe_differences,
)
from dwise_predict.refresh import Origin, check_settings, refresh_bundle
from dwise_predict.repeats import (
    record_stability,
    repeats_missing,
    serve_repeats,
)
from dwise_predict.run_folder import RunFolder
from dwise_predict.tables import evaluation_rows
from dwise_predict.training import MIN_TRAIN_REQUESTS, train_bundle
from dwise_predict.workload.build import build_workload
from dwise_predict.workload.jsonl import dump_jsonl, read_jsonl
from dwise_predict.workload.schema import Request


@dataclass(frozen=True)
class RunResult:
    """A finished run: its files, and the figures the report shows."""

    folder: RunFolder
    metrics: Metrics
    outcomes: Outcomes
    stability: Stability | None
    refresh: Refresh | None


def run_training(
    recipe: Recipe,
    out_dir: Path,
    resume: bool = False,
    progress: Progress = SILENT,
    command: str = "",
    fleet: Fleet = HERE,
) -> RunResult:
    """Profile, train, evaluate and report into ``out_dir``; finished stages are kept on resume.

    ``command`` is recorded in the bundle's provenance; ``fleet`` are running servers to profile
    with. Raises a DwiseError naming what to do when
    the folder belongs to something else, or the workload cannot train and evaluate predictors.
    """
    folder = RunFolder(out_dir)
    _refuse_started(folder, resume)
    requests = _workload(folder, recipe, progress)
    _check_trainable(requests, recipe)
    with _opened(folder, recipe, requests):
        _check_bundle_place(folder)
        _profiles(requests, recipe, folder, progress, fleet)
        if not folder.trained:
            _train(folder, recipe.predictors, recipe.seed, progress, command)
        if not folder.report.is_file():
            _report(folder, progress)
        return _result(folder)


def run_training_from_profile(
    source: Path,
    out_dir: Path,
    settings: PredictorSettings,
    seed: int | None = None,
    progress: Progress = SILENT,
    command: str = "",
    profile_repo: str | None = None,
    origin: Origin | None = None,
) -> RunResult:
    """Train, evaluate and report into the new folder ``out_dir``, from a finished profile.

    The folder gets a copy of the profile, but neither recipe nor workload, which a profile does
    not have. ``seed`` None is the profile's. ``profile_repo`` is recorded in the provenance. With
    ``origin``, its bundle is refreshed instead of training from the start.
    Raises ProfileError for a profile that is none or damaged, RunError for a folder in use.
    """
    folder = RunFolder(out_dir)
    run = read_profile(source).run
    if origin is not None:
        origin.bundle.require(run.fingerprint)
        check_settings(origin.bundle, settings)
    if folder.path.is_file() or (folder.path.exists() and any(folder.path.iterdir())):
        raise RunError(f"{folder.path} exists and is not empty; choose another --out")
    _make_place(folder)
    busy = RunError(f"another process is writing {folder.path}; choose another --out")
    with locked(folder.path, busy):
        _copy(source, folder)
        seed = run.seed if seed is None else seed
        try:
            _train(folder, settings, seed, progress, command, profile_repo, origin)
        except DwiseError:
            if not folder.bundle.exists():
                _empty(folder.path)  # nothing but the copy: a refusal must not take the place
            raise
        _report(folder, progress)
        return _result(folder)


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _copy(source: Path, folder: RunFolder) -> None:
    """Copy a profile and, where it lies in a run folder, its repeats."""
    copy_profile(source, folder.profile)
    run = RunFolder(source.parent)
    if source != run.profile:
        return
    for number, repeat in enumerate(run.repeats, start=2):
        copy_profile(repeat, folder.repeat(number))
    if (run.mixed / RUN_FILE).is_file():
        copy_profile(run.mixed, folder.mixed)
    record_stability(folder)


def run_profiling(
    recipe: Recipe,
    out_dir: Path,
    resume: bool = False,
    progress: Progress = SILENT,
    fleet: Fleet = HERE,
) -> RunFolder:
    """The first stages of :func:`run_training` alone, which can later continue in ``out_dir``."""
    folder = RunFolder(out_dir)
    _refuse_started(folder, resume)
    requests = _workload(folder, recipe, progress)
    with _opened(folder, recipe, requests):
        _profiles(requests, recipe, folder, progress, fleet)
        read_profile(folder.profile)  # one finished earlier may have been damaged since
    return folder


def _workload(folder: RunFolder, recipe: Recipe, progress: Progress) -> list[Request]:
    """The requests to serve; those of public data sets are downloaded once, when a run starts."""
    if recipe.workload.name == "paper" and folder.started:
        return read_jsonl(folder.workload)
    return build_workload(recipe.workload, recipe.model, recipe.seed, progress)


def _refuse_started(folder: RunFolder, resume: bool) -> None:
    if folder.path.exists() and not folder.path.is_dir():
        raise RunError(f"{folder.path} is a file; choose another --out")
    if not folder.started:
        return
    if not folder.is_run:
        raise RunError(f"{folder.path} is not empty and no run folder; choose another --out")
    if not resume:
        raise RunError(
            f"{folder.path} holds a run already; continue it with --resume, choose another --out, "
            "or delete it"
        )


def _make_place(folder: RunFolder) -> None:
    try:
        make_folder(folder.path)
    except OSError as error:
        raise RunError(
            f"cannot create {folder.path}: {error.strerror}; choose another --out"
        ) from error


@contextmanager
def _opened(folder: RunFolder, recipe: Recipe, requests: Sequence[Request]) -> Iterator[None]:
    """Create the run folder, or continue one of the same recipe and workload, alone in it."""
    _make_place(folder)
    busy = RunError(
        f"another process is writing {folder.path}; wait for it or choose another --out"
    )
    with locked(folder.path, busy):
        if folder.started:
            _check_same(folder, recipe, requests)
            yield
        else:
            with _begun(folder, recipe, requests):
                yield


@contextmanager
def _begun(folder: RunFolder, recipe: Recipe, requests: Sequence[Request]) -> Iterator[None]:
    """Write recipe and workload; a run that ends before its profile takes them away again."""
    texts = {folder.recipe: dump_recipe(recipe), folder.workload: dump_jsonl(requests)}
    new = {path: text for path, text in texts.items() if not path.exists()}
    for path in texts.keys() - new.keys():
        if not path.is_file() or path.read_bytes() != texts[path].encode():
            raise RunError(
                f"{folder.path} holds a {path.name} that is not this run's; choose another --out"
            )
    try:
        for path, text in new.items():
            write_text(path, text)
        yield
    finally:
        if not folder.started:
            for path in new:
                path.unlink(missing_ok=True)


def _check_same(folder: RunFolder, recipe: Recipe, requests: Sequence[Request]) -> None:
    """Labels and predictors belong to one recipe and one workload; others are refused."""
    differences = recipe_differences(load_recipe(str(folder.recipe.resolve())), recipe)
    if differences:
        raise RunError(
            f"{folder.path} was started with another recipe ({'; '.join(differences)}); "
            "resume with the same recipe, or choose another --out"
        )
    if folder.workload.read_bytes() != dump_jsonl(requests).encode():
        try:
            stored = read_jsonl(folder.workload)
        except WorkloadError as error:
            raise RunError(
                f"the run's copy of its workload is damaged ({error}); restore "
                f"{folder.workload}, or choose another --out"
            ) from error
        raise RunError(
            f"{folder.path} was started with another workload ({_change(stored, requests)}); "
            "restore it, or choose another --out"
        )


def _change(stored: Sequence[Request], requests: Sequence[Request]) -> str:
    if len(stored) != len(requests):
        return f"{len(stored)} requests then, {len(requests)} now"
    pairs = zip(stored, requests, strict=True)
    changed = next((new.request_id for old, new in pairs if old != new), None)
    return "another spelling" if changed is None else f"request {changed!r} differs"


def _check_trainable(requests: Sequence[Request], recipe: Recipe) -> None:
    """Say before an hour of profiling that training would refuse the workload."""
    train = sum(request.split == "train" for request in requests)
    held_out = len(requests) - train
    if train < MIN_TRAIN_REQUESTS or held_out == 0:
        origin = recipe.workload.path or f"the {recipe.workload.name} workload"
        raise WorkloadError(
            f"{origin} gives {train} training and {held_out} evaluation requests; at least "
            f"{MIN_TRAIN_REQUESTS} and 1 are needed. Add prompts, or profile only: dwise profile"
        )


def _profiles(
    requests: Sequence[Request],
    recipe: Recipe,
    folder: RunFolder,
    progress: Progress,
    fleet: Fleet,
) -> None:
    """Serve the profile and its repeats, and compare them."""
    if not folder.profiled:
        folder.predictions.unlink(missing_ok=True)  # of a profile that is no more
        profile_workload(requests, recipe, folder.profile, progress, fleet=fleet)
    if repeats_missing(recipe, folder):
        folder.report.unlink(missing_ok=True)
        if recipe.predictors.labels == "median":
            folder.predictions.unlink(missing_ok=True)
        serve_repeats(requests, recipe, folder, progress, fleet)
    record_stability(folder)


def _check_bundle_place(folder: RunFolder) -> None:
    """Say before an hour of work that the bundle could not be written."""
    if not can_hold_bundle(folder.bundle):
        raise RunError(
            f"{folder.bundle} is damaged or no bundle: it has no config.json; "
            f"delete the folder {folder.bundle} and run again with --resume"
        )


def _report(folder: RunFolder, progress: Progress) -> None:
    with progress.task("report", 1) as advance:
        write_report(folder)
        advance(1)


def _train(
    folder: RunFolder,
    settings: PredictorSettings,
    seed: int,
    progress: Progress,
    command: str,
    profile_repo: str | None = None,
    origin: Origin | None = None,
) -> None:
    """Train into ``bundle/``, then write the predictions, which mark the stage as complete."""
    folder.report.unlink(missing_ok=True)  # of predictors that are no more
    seconds = _serving_seconds(folder)
    if origin is None:
        evaluation = train_bundle(
            folder.profile,
            folder.bundle,
            settings,
            seed,
            progress=progress,
            command=command,
            seconds_profile=seconds,
            profile_repo=profile_repo,
            repeats=folder.repeats,
        )
    else:
        evaluation, refresh = refresh_bundle(
            folder.profile,
            folder.bundle,
            origin,
            settings,
            seed,
            progress=progress,
            command=command,
            seconds_profile=seconds,
            profile_repo=profile_repo,
            repeats=folder.repeats,
        )
        write_text(folder.refresh, refresh.model_dump_json(indent=1) + "\n")
    sink = pa.BufferOutputStream()
    pq.write_table(evaluation.predictions, sink)
    write_bytes(folder.predictions, sink.getvalue().to_pybytes())


def _serving_seconds(folder: RunFolder) -> float:
    """Time spent in rounds, over all tries of an interrupted profile."""
    rounds = read_profile(folder.profile).rounds
    return float(pc.sum(rounds["wall_ms"]).as_py() or 0) / 1000


def _result(folder: RunFolder) -> RunResult:
    requests = read_profile(folder.profile).requests
    return RunResult(
        folder=folder,
        metrics=PredictorBundle.load(folder.bundle).metrics,
        outcomes=outcomes(evaluation_rows(requests)),
        stability=read_stability(folder.stability),
        refresh=read_refresh(folder.refresh),
    )
