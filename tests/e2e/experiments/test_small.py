"""Several experiments on a small workload of the embedded model, killed on the way."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from dwise_predict.results import read_results
from dwise_predict.tables import read_table
from tests.runs import DWISE, dwise, environment

SMALL = [
    "--seeds", "1",
    "--set", "workload.train=64",
    "--set", "workload.eval=24",
    "--set", "engine.slots=4",
    "--set", "predictors.refiner.epochs=10",
    "--set", "predictors.refiner.members=1",
    "--out", "out",
]  # fmt: skip
NAMES = ["heterogeneity", "signals", "components", "residents", "first-block", "seeds"]


def command(engine: str, *names: str) -> list[str]:
    return ["experiment", *names, "--engine", engine, *SMALL]


def files(folder: Path) -> dict[str, tuple[int, int]]:
    """Inode and time of every file: one that is written again gets a new inode."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            status = path.stat()
            found[str(path.relative_to(folder))] = (status.st_ino, status.st_mtime_ns)
    return found


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Killed once two cases were served, then run to its end."""
    folder = tmp_path_factory.mktemp("study")
    process = subprocess.Popen(
        [DWISE, *command("torch", *NAMES)],
        cwd=folder,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    served = folder / "out" / "torch" / "served"
    deadline = time.monotonic() + 200
    while len(list(served.glob("*/*/summary.json"))) < 2:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (folder / "out" / "torch" / "components" / "table.md").exists()
    finished = [folder / "out" / "base", *served.glob("seed-0/[!.]*")]
    kept = {place: files(place) for place in finished}
    result = dwise(*command("torch", *NAMES), "--docs", "docs", cwd=folder)
    assert result.returncode == 0, result.stderr
    for place, content in kept.items():
        now = files(place)
        assert content == {name: now[name] for name in content}, place
    return folder


def test_every_experiment_leaves_table_figures_and_picture(study: Path) -> None:
    for name in NAMES:
        folder = study / "out" / "torch" / name
        assert {path.name for path in folder.iterdir()} == {
            "experiment.json", "figures.parquet", "plot.svg", "table.csv", "table.md",
        }  # fmt: skip
        record = json.loads((folder / "experiment.json").read_text())
        assert record["experiment"] == name
        assert record["command"].startswith(f"dwise experiment {name} --engine torch")
        assert read_table(folder / "figures.parquet").num_rows > 0
        assert (folder / "plot.svg").read_bytes().startswith(b"<?xml")


def test_figures_are_those_of_the_served_runs(study: Path) -> None:
    with (study / "out" / "torch" / "components" / "table.csv").open() as file:
        rows = {(row["run"], row["figure"]): row for row in csv.DictReader(file)}
    means = {}
    for run, folder in (("SGLang", "sglang"), ("DWISE", "dwise"), ("Oracle", "oracle")):
        place = study / "out" / "torch" / "served" / "seed-0" / f"burst-poisson_{folder}"
        means[run] = read_results(place).summary.latency_s.mean
        assert float(rows[run, "mean_latency_s"]["ours"]) == pytest.approx(means[run])
    for run, mean in means.items():
        assert float(rows[run, "speedup"]["ours"]) == pytest.approx(means["SGLang"] / mean)
    assert float(rows["Oracle", "speedup"]["paper"]) == 13.1


def test_pages_show_the_command_the_table_and_the_differences(study: Path) -> None:
    for name in NAMES:
        page = (study / "docs" / f"{name}.md").read_text()
        table = (study / "out" / "torch" / name / "table.md").read_text()
        assert table in page
        assert f"$ dwise experiment {name} --engine torch --model tiny --seeds 1" in page
        assert "trained on 64 requests a seed, 24 unseen requests served" in page
        assert "on 4 slots, one seed." in page
        assert f"]({name}.svg)" in page and (study / "docs" / f"{name}.svg").is_file()
        assert "## Against the paper" in page


def test_again_nothing_is_served_and_the_simulator_shares_the_base(study: Path) -> None:
    before = files(study / "out")
    again = dwise(*command("torch", "components"), cwd=study)
    assert again.returncode == 0, again.stderr
    after = files(study / "out")
    assert {n for n in before if before[n] != after[n]} <= {
        f"torch/components/{name}"
        for name in ("experiment.json", "figures.parquet", "plot.svg", "table.csv", "table.md")
    }
    simulated = dwise(*command("simulator", "seeds", "refinement"), cwd=study)
    assert simulated.returncode == 0, simulated.stderr
    assert "DWISE over seeds" in simulated.stdout and "per 4 rounds" in simulated.stdout
    now = files(study / "out")
    assert all(after[name] == now[name] for name in after if name.startswith("base/"))
    # The same scheduler, told the same: as a burst, every round is the engine's.
    slots = [
        read_results(study / "out" / engine / "served" / "seed-0" / "burst_dwise").rounds["slots"]
        for engine in ("torch", "simulator")
    ]
    assert slots[0].equals(slots[1])


def test_what_was_damaged_is_named_and_made_again(study: Path, tmp_path: Path) -> None:
    folder = tmp_path / "study"
    shutil.copytree(study, folder)
    again = "run the same command again"

    def run() -> subprocess.CompletedProcess[str]:
        return dwise(*command("torch", "signals", "seeds"), cwd=folder)

    def refused() -> str:
        result = run()
        assert result.returncode == 2
        error = result.stderr.splitlines()[-1]
        assert error.startswith("error: ") and again in error, result.stderr
        assert "Traceback" not in result.stderr and "semaphore" not in result.stderr
        return error

    answer = Path("out", "base", "computed", "seed-0", "signals.json")
    served = Path("out", "torch", "served", "seed-0", "burst_dwise")
    bundle = Path("out", "base", "seed-0", "bundle")
    prompts = Path("out", "base", "seed-0", "prompts.safetensors")
    before = (folder / answer).read_bytes()
    for path in (answer, served / "summary.json", bundle / "config.json", prompts):
        (folder / path).write_bytes((folder / path).read_bytes()[:-20])
    assert f"{answer} is damaged: delete it" in refused()
    (folder / answer).unlink()
    # Made again, it needs the prompts.
    assert f"{prompts} is damaged: delete it" in refused()
    (folder / prompts).unlink()
    assert f"delete the folder {served}" in refused()
    shutil.rmtree(folder / served)
    # Served again, it needs the bundle, whose error speaks to those who train.
    error = refused()
    assert str(bundle) in error and "goes on by itself, without --resume" in error
    shutil.rmtree(folder / bundle)
    result = run()
    assert result.returncode == 0, result.stderr
    assert (folder / answer).read_bytes() == before
