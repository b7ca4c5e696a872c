"""Experiments from their names to their results."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from dwise_predict.errors import BaselineError, DwiseError, ExperimentError, RecipeError
from dwise_predict.experiments.experiment import Experiment
from dwise_predict.experiments.output import write_experiment, write_index, write_page
from dwise_predict.experiments.registry import EXPERIMENTS
from dwise_predict.experiments.settings import Settings
from dwise_predict.experiments.study import Study
from dwise_predict.experiments.values import Value
from dwise_predict.experiments.work import run_all
from dwise_predict.files import locked, make_folder, write_text
from dwise_predict.progress import SILENT, Progress
from dwise_predict.recipe import dump_recipe, load_recipe, recipe_differences
from dwise_predict.validation import unknown_name

ALL = "all"
RECIPE_FILE = "recipe.yaml"

Shown = Callable[[Experiment, Sequence[Value], Path], None]
"""Told about every finished experiment: figures and folder."""


def chosen(names: Sequence[str], settings: Settings) -> tuple[list[Experiment], list[Experiment]]:
    """Experiments by name, and those of ``all`` that the engine cannot run.

    Raises ExperimentError for an unknown name and for a named one that the engine cannot run.
    """
    for name in names:
        if name != ALL and name not in EXPERIMENTS:
            raise ExperimentError(unknown_name("experiment", name, [ALL, *EXPERIMENTS]))
    everything = ALL in names
    listed = [e for e in EXPERIMENTS.values() if everything or e.name in names]
    impossible = [e for e in listed if settings.engine in e.not_with]
    if impossible and not everything:
        first = impossible[0]
        raise ExperimentError(
            f"experiment {first.name} cannot be run with --engine {settings.engine}: "
            f"{first.not_with[settings.engine]}"
        )
    return [e for e in listed if e not in impossible], impossible


def run_experiments(
    experiments: Sequence[Experiment],
    settings: Settings,
    flags: Sequence[str],
    progress: Progress = SILENT,
    on_finished: Shown = lambda experiment, values, folder: None,
    docs: Path | None = None,
) -> None:
    """Do what is left to do, and write every experiment's results.

    Args:
        experiments: to run; what they share is done once.
        settings: of all of them.
        flags: of the command, for the record.
        progress: told about the pieces of work.
        on_finished: called for each experiment.
        docs: folder of the documentation's pages, written too.

    Raises:
        ExperimentError: the folder belongs to something else, or another process is writing it.
        DwiseError: from a piece of work; what is finished is kept.
    """
    _check_place(settings.out)
    if docs is not None and docs.exists() and not docs.is_dir():
        raise ExperimentError(f"--docs {docs} is a file, expected a folder")
    make_folder(settings.out)
    busy = ExperimentError(
        f"another process is writing {settings.out}: wait for it, or choose another --out"
    )
    with locked(settings.out, busy):
        _check_recipe(settings)
        work = [piece for experiment in experiments for piece in experiment.work(settings)]
        try:
            run_all(work, settings, progress)
            _write(experiments, settings, flags, on_finished, docs)
        except DwiseError as error:
            if isinstance(error, BaselineError) or "--resume" in str(error):
                raise _going_on(error) from error
            raise


def _write(
    experiments: Sequence[Experiment],
    settings: Settings,
    flags: Sequence[str],
    on_finished: Shown,
    docs: Path | None,
) -> None:
    study = Study(settings)
    for experiment in experiments:
        command = shlex.join(["dwise", "experiment", experiment.name, *flags])
        values = experiment.measure(study)
        folder = write_experiment(experiment, settings, values, command)
        if docs is not None:
            write_page(docs, experiment, values, command, described(study))
        on_finished(experiment, values, folder)
    if docs is not None:
        write_index(docs, EXPERIMENTS.values())


def _going_on(error: DwiseError) -> ExperimentError:
    """An error of training or profiling, whose advice is that of other commands."""
    return ExperimentError(
        f"{error} (here: once that is put right, run the same command again; it goes on by itself, "
        "without --resume)"
    )


def described(study: Study) -> str:
    """What was trained and served."""
    settings, base = study.settings, study.base(0)
    trained, unseen = int(base.in_training.sum()), len(base.asked())
    how = {
        "simulator": "replayed by the simulator",
        "torch": "served by the built-in engine",
        "sglang": "served by SGLang",
    }[settings.engine]
    return (
        f"Model {settings.recipe.name}, trained on {trained:,} requests a seed, {unseen:,} unseen "
        f"requests {how} on {settings.recipe.engine.slots} slots"
    )


def _check_place(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise ExperimentError(f"--out {out} is a file, expected a folder")
    strangers = out.is_dir() and any(entry.suffix != ".tmp" for entry in out.iterdir())
    if strangers and not (out / RECIPE_FILE).is_file():
        raise ExperimentError(
            f"{out} is not empty and no folder of experiments; choose another --out"
        )


def _check_recipe(settings: Settings) -> None:
    """Everything in a folder is of one model, decoding and workload."""
    path = settings.out / RECIPE_FILE
    recipe = settings.recipe_of(seed=0)
    if not path.exists():
        write_text(path, dump_recipe(recipe))
        return
    try:
        differences = recipe_differences(load_recipe(str(path.resolve())), recipe)
    except RecipeError as error:
        raise ExperimentError(f"{path} is damaged ({error}); choose another --out") from error
    if differences:
        raise ExperimentError(
            f"{settings.out} holds experiments with another recipe ({'; '.join(differences)}); "
            "choose another --out"
        )
