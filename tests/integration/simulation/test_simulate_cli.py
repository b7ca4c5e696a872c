"""``dwise simulate`` through the real command line."""

from __future__ import annotations

import json
import random
import re
import subprocess
import time
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest

from dwise_predict.errors import ResultsError
from dwise_predict.files import locked
from dwise_predict.profile import ROUNDS_SCHEMA
from dwise_predict.results import read_results
from tests.runs import DWISE, dwise, environment
from tests.synthetic import replace_table, synthetic_examples, write_profile

SYNTHETIC = ("simulate", "--synthetic", 60, "--slots", 8)
COST = ("--cost", "5,0.5,0.001")
FCFS = ("--synthetic", "9", "--policy", "fcfs")
LEAN = (*FCFS, "--former", "mixed_phase", "--policy-option")
ORACLE = ("--synthetic", "9", "--policy", "dwise", "--predictor", "oracle", "--policy-option")


def test_runs_beside_each_other_with_results_and_pictures(tmp_path: Path, run_folder: Path) -> None:
    result = dwise(
        "simulate", "--profile", run_folder, *COST, "--slots", 8, "--policy", "fcfs",
        "--policy", "fcfs", "--former", "mixed_phase", "--policy", "dwise",
        "--policy", "dwise", "--policy-option", "hysteresis=0.3", "--policy", "oracle",
        "--arrival", "burst+poisson", "--rate", 20, "--out", "sim", "--plot", cwd=tmp_path,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    labels = ["fcfs", "fcfs-mixed_phase", "dwise", "dwise-2", "oracle"]
    record = json.loads((tmp_path / "sim" / "simulation.json").read_text())
    assert list(record["runs"]) == labels
    assert record["runs"]["dwise-2"]["options"] == {"hysteresis": 0.3}
    assert record["cost"]["slot_ms"] == 0.5
    assert record["profile"] == str(run_folder) and record["rate"] == 20
    assert record["trace"] is record["split"] is record["limit"] is record["bundle"] is None
    runs = {label: read_results(tmp_path / "sim" / label) for label in labels}
    for label, run in runs.items():
        line = next(x for x in result.stdout.splitlines() if x.startswith(f"{label} "))
        factor = runs["fcfs"].summary.latency_s.mean / run.summary.latency_s.mean
        assert f"{run.summary.latency_s.mean:.4g}" in line
        assert f"{factor:.2f}×" in line
        assert run.summary.n == 60 and run.summary.arrival == "burst+poisson"
    means = {label: run.summary.latency_s.mean for label, run in runs.items()}
    assert means["oracle"] < means["dwise"] < means["fcfs-mixed_phase"] < means["fcfs"]
    assert runs["fcfs"].summary.prefill_only_rounds > 0
    assert runs["dwise"].requests["refined_estimate"].null_count < 60
    for name in ("latency_cdf.svg", "latency_bars.svg", "rounds.svg"):
        text = (tmp_path / "sim" / name).read_text()
        assert ElementTree.fromstring(text).tag.endswith("svg")
        assert all(label in text for label in labels)


def test_the_same_command_gives_the_same_bytes(tmp_path: Path) -> None:
    for out in ("a", "b"):
        result = dwise(
            *SYNTHETIC, "--policy", "noisy_oracle", "--correlation", 0.7, "--arrival", "poisson",
            "--rate", 3, "--seed", 4, "--out", out, "--plot", cwd=tmp_path,
        )  # fmt: skip
        assert result.returncode == 0, result.stderr
    files = [path for path in (tmp_path / "a").rglob("*") if path.is_file()]
    assert len(files) == 7
    for path in files:
        assert path.read_bytes() == (tmp_path / "b" / path.relative_to(tmp_path / "a")).read_bytes()


def test_a_bundle_and_its_curves(tmp_path: Path, run_folder: Path) -> None:
    result = dwise(
        "simulate", "--profile", run_folder / "profile", "--bundle", run_folder / "bundle", *COST,
        "--policy", "fcfs", "--policy", "dwise", "--policy-option", "estimate=residual",
        cwd=tmp_path,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "dwise on mixed_phase, estimate=residual; estimates: bundle" in result.stdout


def test_a_trace(tmp_path: Path, run_folder: Path) -> None:
    lines = [f'{{"timestamp": {250 * i}, "input_length": {50 + i}}}\n' for i in range(40)]
    (tmp_path / "t.jsonl").write_text("".join(lines))
    result = dwise(
        "simulate", "--profile", run_folder, "--trace", "t.jsonl", "--limit", 30, *COST,
        "--policy", "fcfs", "--policy", "dwise", "--prefill-chunk", "whole", "--out", "sim",
        cwd=tmp_path,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "30 requests of t.jsonl" in result.stdout
    requests = read_results(tmp_path / "sim" / "dwise").requests
    assert requests["arrival_s"].to_pylist() == [0.25 * i for i in range(30)]
    assert requests["prompt_tokens"].to_pylist() == list(range(50, 80))


def test_an_earlier_simulation_is_replaced_as_a_whole(tmp_path: Path) -> None:
    out = tmp_path / "sim"
    command = (*SYNTHETIC, "--former", "mixed_phase", "--out", "sim")
    first = dwise(*command, "--policy", "fcfs", "--policy", "mlfq", "--plot", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    (out / "notes.txt").write_text("mine")
    (out / "own").mkdir()
    second = dwise(*command, "--policy", "hrrn", "--policy", "fcfs", cwd=tmp_path)
    assert second.returncode == 0, second.stderr
    kept = {"simulation.json", "hrrn-mixed_phase", "fcfs-mixed_phase", "notes.txt", "own"}
    assert {path.name for path in out.iterdir()} == kept


def test_a_refused_simulation_leaves_the_earlier_one(tmp_path: Path) -> None:
    out = tmp_path / "sim"
    assert dwise(*SYNTHETIC, "--policy", "fcfs", "--out", "sim", cwd=tmp_path).returncode == 0
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    refusal = ResultsError("busy")
    with locked(out, refusal):
        result = dwise(*SYNTHETIC, "--policy", "mlfq", "--out", "sim", cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr == (
        "error: another process is writing sim: wait for it, or choose another --out\n"
    )
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    (out / "simulation.json").write_text("{")
    result = dwise(*SYNTHETIC, "--policy", "mlfq", "--out", "sim", cwd=tmp_path)
    assert "simulation.json is damaged" in result.stderr and result.stderr.count("\n") == 1


def test_a_kill_leaves_whole_results(tmp_path: Path) -> None:
    command = (*SYNTHETIC, "--policy", "fcfs", "--former", "mixed_phase", "--policy", "mlfq")
    assert dwise(*command, "--out", "sim", cwd=tmp_path).returncode == 0
    rng = random.Random(0)
    for _ in range(4):
        with subprocess.Popen(
            [DWISE, *map(str, command), "--out", "sim"], cwd=tmp_path, env=environment(),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        ) as process:  # fmt: skip
            time.sleep(rng.uniform(0.5, 1.5))
            process.kill()
        for label in ("fcfs-mixed_phase", "mlfq"):
            folder = tmp_path / "sim" / label
            moved = folder.with_name(f".{label}.old")
            assert read_results(folder if folder.exists() else moved).summary.n == 60
    assert dwise(*command, "--out", "sim", cwd=tmp_path).returncode == 0
    left = {path.name for path in (tmp_path / "sim").iterdir()}
    assert left == {"simulation.json", "fcfs-mixed_phase", "mlfq"}


def test_a_bad_fit_is_told(tmp_path: Path) -> None:
    profile = write_profile(
        tmp_path / "profile", synthetic_examples(20, 1, 16), synthetic_examples(10, 2, 16)
    )
    rng = np.random.default_rng(0)
    for noise, told in ((0.0, False), (1.0, True)):
        slots = rng.integers(1, 33, 300)
        wall = (1 + slots) * np.exp(noise * rng.normal(size=300))
        columns = {field.name: np.zeros(300) for field in ROUNDS_SCHEMA}
        columns |= {"index": np.arange(300), "slots": slots, "wall_ms": wall}
        table = pa.table(columns).cast(ROUNDS_SCHEMA)
        replace_table(profile, "rounds.parquet", table)
        result = dwise("simulate", "--profile", profile, "--policy", "fcfs", cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        assert ("warning: the fitted cost explains little" in result.stderr) is told
        assert ("give --cost BASE,SLOT,KV" in result.stderr) is told


def test_former_before_the_first_policy_is_for_all(tmp_path: Path) -> None:
    result = dwise(
        *SYNTHETIC, "--former", "single_phase", "--policy", "fcfs", "--policy", "mlfq",
        "--former", "prefill_first", cwd=tmp_path,
    )  # fmt: skip
    assert re.search(r"fcfs on single_phase; estimates: none", result.stdout), result.stderr
    assert re.search(r"mlfq on prefill_first; estimates: none", result.stdout)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["Missing option '--policy'"]),
        (["--policy", "fcfs"], ["nothing to replay: give --profile DIR"]),
        (["--policy", "fcsf"], ["unknown --policy 'fcsf'; did you mean 'fcfs'?"]),
        (["--profile", "absent", "--policy", "fcfs"], ["absent is no profile folder"]),
        (["--trace", "t.csv", "--policy", "fcfs"], ["--trace also needs --profile"]),
        (["--profile", "RUN", "--trace", "t.csv", "--policy", "fcfs"], ["cannot read the trace"]),
        (["--profile", "RUN", "--policy", "fcfs"], ["give the model with --cost BASE,SLOT,KV"]),
        (["--profile", "RUN", "--limit", "3", "--policy", "fcfs"], ["--limit is for --trace"]),
        (["--synthetic", "9", "--profile", "RUN", "--policy", "fcfs"], ["leave out --profile"]),
        (["--synthetic", "9", "--split", "all", "--policy", "fcfs"], ["leave out --split"]),
        (["--synthetic", "9", "--policy", "dwise"], ["policy dwise needs estimates"]),
        (["--synthetic", "9", "--policy", "noisy_oracle"], ["needs --correlation"]),
        (["--synthetic", "9", "--policy", "fcfs", "--correlation", "1"], ["--correlation is for"]),
        (
            ["--synthetic", "9", "--policy", "dwise", "--predictor", "bundle"],
            ["--predictor bundle needs --bundle"],
        ),
        (
            ["--synthetic", "9", "--policy", "dwise", "--predictor", "run"],
            ["give one as --profile"],
        ),
        (
            ["--synthetic", "9", "--policy", "fcfs", "--predictor", "oracle", "--bundle", "tiny"],
            ["--bundle does not go with --predictor oracle"],
        ),
        (
            ["--profile", "RUN", *COST, "--policy", "ssjf"],
            ["this policy ranks by output tokens"],
        ),
        (
            ["--profile", "RUN", *COST, "--policy", "dwise", "--policy-option",
             "estimate=residual"],
            ["which only --bundle gives"],
        ),
        (
            ["--synthetic", "9", "--policy-option", "aging=2", "--policy", "dwise"],
            ["--policy-option aging=2 comes before every --policy"],
        ),
        (
            ["--synthetic", "9", "--policy", "dwise", "--policy-option", "aging"],
            ["expected KEY=VALUE"],
        ),
        (
            ["--synthetic", "9", "--policy", "dwise", "--policy-option", "aging=[1"],
            ["aging: '[1' is no YAML value"],
        ),
        (
            ["--synthetic", "9", "--policy", "dwise", "--policy-option", "agng=2"],
            ["did you mean 'aging'?"],
        ),
        (["--synthetic", "9", "--policy", "fcfs", "--arrival", "poisson"], ["needs --rate"]),
        (
            ["--synthetic", "9", "--policy", "fcfs", "--arrival", "poisson", "--rate", "0"],
            ["--rate must be positive, not 0"],
        ),
        (["--synthetic", "9", "--policy", "fcfs", "--rate", "3"], ["--rate is for poisson"]),
        (["--synthetic", "9", "--policy", "fcfs", "--arrival", "trace"], ["needs --trace FILE"]),
        (["--synthetic", "9", "--policy", "fcfs", "--cost", "1,2"], ["expected BASE,SLOT,KV"]),
        (["--synthetic", "9", "--policy", "fcfs", "--cost", "1,2,3,4,5"], ["expected BASE"]),
        (["--synthetic", "9", "--policy", "fcfs", "--cost", "1,2,x"], ["expected BASE"]),
        (["--synthetic", "9", "--policy", "fcfs", "--cost", "0,0,1"], ["0.001 ms at least"]),
        ([*FCFS, "--cost", "nan,1,1"], ["--cost nan,1,1: base_ms"]),
        (["--synthetic", "9", "--policy", "fcfs", "--cost", "fitted"], ["needs --profile"]),
        (["--synthetic", "9", "--policy", "fcfs", "--prefill-chunk", "0"], ["or whole"]),
        (["--synthetic", "9", "--policy", "fcfs", "--kv-tokens", "64"], ["more --kv-tokens"]),
        (["--synthetic", "9", "--policy", "fcfs", "--plot"], ["--plot needs --out"]),
        (["--synthetic", "9", "--policy", "fcfs", "--out", "notes"], ["notes is a file"]),
        (["--synthetic", "9", "--policy", "fcfs", "--out", "."], ["holds something else"]),
        (["--synthetic", "0", "--policy", "fcfs"], ["0 is not in the range 1<=x<=1000000"]),
        (["--synthetic", "50000000", "--policy", "fcfs"], ["not in the range 1<=x<=1000000"]),
        ([*FCFS, "--arrival", "poisson", "--rate", "1e-320"], ["--rate 9.99989e-321: the last"]),
        ([*FCFS, "--arrival", "poisson", "--rate", "1e-300"], ["--rate 1e-300: the last"]),
        ([*FCFS, "--cost", "1e308,1e308,1e308"], ["--cost 1e308,1e308,1e308: no part"]),
        ([*FCFS, "--cost", "1e-320,0,0"], ["--cost 1e-320,0,0: BASE and SLOT"]),
        ([*FCFS, "--prefill-chunk", "9" * 23], ["from 1 to 1,000,000, or whole"]),
        ([*FCFS, "--prefill-chunk", "9" * 5000], ["from 1 to 1,000,000, or whole"]),
        ([*FCFS, "--kv-tokens", "9" * 400], ["not in the range 1<=x<=1000000000000"]),
        ([*FCFS, "--slots", "9" * 400], ["not in the range 1<=x<=65536"]),
        ([*LEAN, "lean=" + "[" * 3000], ["'lean' has 3,000 characters"]),
        ([*LEAN, "lean=" + "[" * 990], ["lean: '[[[[", "is no YAML value"]),
        ([*LEAN, "lean=2026-99-99"], ["lean: '2026-99-99' is no YAML value"]),
        ([*LEAN, "lean=.nan"], ["finite number"]),
        ([*LEAN, "lean=.inf"], ["finite number"]),
        (
            [*LEAN, "lean=1",
             "--prefill-chunk", "whole"],
            ["lean needs chunks of one size"],
        ),
        ([*ORACLE, "probe=[.nan]"], ["probe must hold positive ratios"]),
        ([*ORACLE, "probe=[.inf]"], ["probe must hold positive ratios"]),
        ([*ORACLE, "unit=time", "--policy-option", "block_size=-5"], ["block_size"]),
        (
            [*ORACLE, "cost={base_ms: .nan, slot_ms: 1, kv_ms: 1}"],
            ["base_ms"],
        ),
        (["--synthetic", "9", "--policy", "mlfq", "--policy-option", "promote_after=-1"],
         ["promote_after"]),
    ],
)  # fmt: skip
def test_one_line_on_stderr_and_status_2(
    tmp_path: Path, run_folder: Path, arguments: list[str], words: list[str]
) -> None:
    (tmp_path / "notes").write_text("mine")
    given = [str(run_folder) if argument == "RUN" else argument for argument in arguments]
    result = dwise("simulate", *given, cwd=tmp_path)
    assert result.returncode == 2, result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    for word in words:
        assert word in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]
