"""An experiment of the paper through SGLang's HTTP server and ``dwise serve``."""

import subprocess
import sys
from pathlib import Path

import numpy as np

from dwise_predict.results import read_results

SMALL = (
    "workload.train=64",
    "workload.eval=24",
    "engine.slots=4",
    "predictors.refiner.epochs=10",
)


def test_rounds_are_measured_through_the_server(tmp_path):
    settings = [word for setting in SMALL for word in ("--set", setting)]
    module = [sys.executable, "-m", "tests.e2e.sglang.experiment"]
    said = subprocess.run(
        [*module, "rounds", "--seeds", "1", *settings, "--out", str(tmp_path / "out")],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert said.returncode == 0, said.stderr[-3000:]
    folder = tmp_path / "out" / "sglang"
    stock, dwise = (
        read_results(folder / "served" / "seed-0" / f"burst_{run}") for run in ("sglang", "dwise")
    )
    for results in (stock, dwise):
        assert results.summary.engine == "sglang" and results.summary.n == 24
        arrival, end = (results.requests[name].to_numpy() for name in ("arrival_s", "finished_s"))
        assert arrival.min() == 0 and (end > arrival).all()
        work = results.requests["rounds"].to_numpy() + results.requests["prompt_blocks"].to_numpy()
        assert results.rounds["slots"].to_numpy().sum() == work.sum()
    # The same tokens, in fewer and fuller rounds.
    columns = ["request_id", "output_tokens", "rounds", "answer_correct"]
    assert dwise.requests.select(columns).equals(stock.requests.select(columns))
    assert dwise.summary.rounds < stock.summary.rounds
    assert stock.requests["admission_estimate"].null_count == 24
    assert np.isfinite(dwise.requests["admission_estimate"].to_numpy()).all()
    assert not list((folder / "recordings").iterdir())
    assert (folder / "rounds" / "table.md").is_file()
