"""What an experiment leaves behind: figures, table, picture, and its page in the documentation."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
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


def page(experiment: Experiment, values: Sequence[Value], command: str, setting: str) -> str:
    """The experiment as a page of the documentation."""
    table = markdown(experiment_grid(experiment, values))
    seeds = len({value.seed for value in values})
    served = f"{setting}, {seeds} seeds." if seeds > 1 else f"{setting}, one seed."
    beside = f"Figures named *paper* are of {PAPER_MODEL}." if "paper" in table else ""
    spread = "± is the standard deviation over seeds." if "±" in table else ""
    notes = " ".join(note for note in (served, beside, spread) if note)
    return (
        f"# {experiment.title}\n\n"
        f"{experiment.source} of the paper.\n\n"
        f"```console\n$ {command}\n```\n\n"
        f"{notes}\n\n"
        f"{table}\n"
        f"![{experiment.title}]({experiment.name}.svg)\n\n"
        f"## Against the paper\n\n{experiment.differences}\n"
    )


INDEX = """\
# Experiments

The tables and figures of the paper's evaluation, each a command, measured on a model of one's own:

```console
$ dwise experiment --list
$ dwise experiment all --engine torch --model tiny
```

A profile and trained predictors are made once for every seed and shared, and so is every served
run: *DWISE, burst* of seed 0 is the same run in all tables. Everything lies in one folder
(`--out`, by default `runs/experiments/tiny`): in `base/` the run folders of the seeds, in
`ENGINE/served/` a results folder for each run ([simulator](../simulator.md)), in `ENGINE/NAME/` the
table (`table.md`, `table.csv`), all figures (`figures.parquet`: arrival, run, figure, seed, value)
and a picture. What is finished is kept: the same command goes on after an interruption, other names
add to the folder.
Table and picture stand beside the paper's figures where it has them; pages like those below are
written by `--docs DIR`.

`--engine torch` serves with the built-in engine, `--engine simulator` replays the profiled rounds
under the cost model that was fitted to them ([simulator](../simulator.md)): what else the machine
does while it replays changes nothing, while it profiles it does. `--engine sglang` starts SGLang's
server (`dwise serve`), where SGLang is installed and can run the model. `--list` says which
experiments an engine cannot do, the command says why. `--model` takes any recipe, `--set` its keys,
`--seeds` the number of seeds.

## What differs from the paper in all of them

- The model has 4.5 million parameters and runs on CPU cores. Nearly the whole time of a round is
  that of the blocks in it: a round with 32 blocks takes eleven times as long as one with a single
  block. On the paper's GPU 128 blocks take seven times as long as one, so that filling empty slots
  is nearly free there, and doubles the throughput. Here it does not.
- 512 requests a seed on 32 slots, instead of 4,096 on 128. A backlog is seconds, not minutes, and a
  larger part of it is the end, when fewer requests than slots are left.
- Prompts are generated ([workload](../workload.md)). Long ones have 57 blocks, not more than 300;
  the size of a prompt says little about its work, and output length says much.
- Compare ratios. Seconds are of different machines and models.

## Pages

"""


def write_index(docs: Path, experiments: Iterable[Experiment]) -> None:
    """Write the page that names all ``experiments``, with links to those that have a page."""
    lines = ["| experiment | paper | shows |\n", "| --- | --- | --- |\n"]
    for experiment in experiments:
        name = experiment.name
        if (docs / f"{name}.md").is_file():
            name = f"[{name}]({name}.md)"
        lines.append(f"| {name} | {experiment.source} | {experiment.title} |\n")
    write_text(docs / "index.md", INDEX + "".join(lines))


def write_page(
    docs: Path, experiment: Experiment, values: Sequence[Value], command: str, setting: str
) -> None:
    """Write the page and its picture into the folder ``docs``."""
    write_bytes(docs / f"{experiment.name}.svg", experiment.plot(values))
    write_text(docs / f"{experiment.name}.md", page(experiment, values, command, setting))
