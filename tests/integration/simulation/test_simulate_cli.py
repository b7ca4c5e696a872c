"""``dwise simulate`` through the real command line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dwise_predict.results import read_results
from tests.runs import dwise

SYNTHETIC = ("simulate", "--synthetic", 60, "--slots", 8)
COST = ("--cost", "5,0.5,0.001")


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
            ["'[1' is no YAML value"],
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
        (["--synthetic", "9", "--policy", "fcfs", "--cost", "0,0,1"], ["must be positive"]),
        (["--synthetic", "9", "--policy", "fcfs", "--cost", "nan,1,1"], ["may be negative"]),
        (["--synthetic", "9", "--policy", "fcfs", "--cost", "fitted"], ["needs --profile"]),
        (["--synthetic", "9", "--policy", "fcfs", "--prefill-chunk", "0"], ["or whole"]),
        (["--synthetic", "9", "--policy", "fcfs", "--kv-tokens", "64"], ["more --kv-tokens"]),
        (["--synthetic", "9", "--policy", "fcfs", "--plot"], ["--plot needs --out"]),
        (["--synthetic", "9", "--policy", "fcfs", "--out", "notes"], ["notes is a file"]),
        (["--synthetic", "9", "--policy", "fcfs", "--out", "."], ["holds something else"]),
        (["--synthetic", "0", "--policy", "fcfs"], ["0 is not in the range x>=1"]),
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
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    for word in words:
        assert word in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]
