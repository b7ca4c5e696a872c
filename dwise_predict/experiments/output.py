"""What an experiment leaves behind: figures, table, picture, and its page in the documentation."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dwise_predict.experiments.experiment import Experiment
from dwise_predict.experiments.settings import Settings
from dwise_predict.experiments.table import Grid, comma_separated, grid, markdown
from dwise_predict.experiments.values import PAPER_MODEL, Value, paper_figures
from dwise_predict.files import write_bytes, write_text

FIGURES, TABLE, CSV, PICTURE, RECORD = (
    "figures.parquet",
    "table.md",
    "table.csv",
    "plot.svg",
    "experiment.json",
)


def write_experiment(
    experiment: Experiment, settings: Settings, values: Sequence[Value], command: str
) -> Path:
    """Write the experiment's folder; the record, written last, says that it is complete."""
    folder, paper = settings.of(experiment.name), paper_figures()
    columns = {name: [getattr(value, name) for value in values] for name in Value._fields}
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    write_bytes(folder / FIGURES, sink.getvalue())
    write_text(folder / TABLE, markdown(grid(values, experiment.columns, paper)))
    write_text(folder / CSV, comma_separated(values, paper))
    write_bytes(folder / PICTURE, experiment.plot(values))
    record = {
        "experiment": experiment.name,
        "paper": experiment.source,
        "command": command,
        "library_version": version("dwise-predict"),
        "engine": settings.engine,
        "seeds": settings.seeds,
        "recipe": settings.recipe.model_dump(mode="json", exclude={"seed"}),
    }
    write_text(folder / RECORD, json.dumps(record, indent=1) + "\n")
    return folder


def experiment_grid(experiment: Experiment, values: Sequence[Value]) -> Grid:
    """The experiment's table."""
    return grid(values, experiment.columns, paper_figures())


def page(
    experiment: Experiment, settings: Settings, values: Sequence[Value], command: str, setting: str
) -> str:
    """The experiment as a page of the documentation."""
    table = markdown(experiment_grid(experiment, values))
    beside = f"Figures named *paper* are of {PAPER_MODEL}." if "paper" in table else ""
    spread = "± is the standard deviation over seeds." if "±" in table else ""
    notes = " ".join(note for note in (setting, beside, spread) if note)
    return (
        f"# {experiment.title}\n\n"
        f"{experiment.source} of the paper.\n\n"
        f"```console\n$ {command}\n```\n\n"
        f"{notes}\n\n"
        f"{table}\n"
        f"![{experiment.title}]({experiment.name}.svg)\n\n"
        f"## Against the paper\n\n{experiment.differences}\n"
    )


def write_page(
    docs: Path,
    experiment: Experiment,
    settings: Settings,
    values: Sequence[Value],
    command: str,
    setting: str,
) -> None:
    """Write the page and its picture into the folder ``docs``."""
    write_bytes(docs / f"{experiment.name}.svg", experiment.plot(values))
    write_text(docs / f"{experiment.name}.md", page(experiment, settings, values, command, setting))
