"""Runs that are killed or interrupted continue to the result of an undisturbed run."""

import signal
import time
from collections.abc import Callable
from pathlib import Path

from tests.runs import dwise, same_result, start_train

FLAGS = ("--model", "recipe.yaml", "--workload", "prompts.jsonl", "--resume")


def _stop_when(
    reached: Callable[[], bool], with_signal: signal.Signals, study: Path, out: Path
) -> tuple[int, str]:
    """Run until ``reached``, then send a signal; exit status and standard error."""
    process = start_train(*FLAGS, "--out", out, cwd=study)
    while not reached() and process.poll() is None:
        time.sleep(0.002)
    process.send_signal(with_signal)
    _, stderr = process.communicate(timeout=120)
    return process.returncode, stderr


def test_sigkill_in_every_stage(study: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shards = out / "profile" / "shards"
    moments = {
        "the recipe is being written": lambda: out.exists(),
        "the first shard is served": lambda: shards.exists(),
        "some shards are served": lambda: len(list(shards.glob("shard-*"))) > 3,
        "the profile is merged": lambda: (out / "profile" / "run.json").exists(),
        "the bundle is being written": lambda: (out / ".bundle.new").exists(),
        "the bundle is there": lambda: (out / "bundle").exists(),
        "predictions are there": lambda: (out / "predictions.parquet").exists(),
    }
    for moment, reached in moments.items():
        status, stderr = _stop_when(reached, signal.SIGKILL, study, out)
        assert status == -signal.SIGKILL, f"{moment}: {stderr}"
    result = dwise("train", *FLAGS, "--out", out, cwd=study)
    assert result.returncode == 0, result.stderr
    assert same_result(out, study / "run") == []
    left = {path.name for path in out.iterdir()}
    assert left == {path.name for path in (study / "run").iterdir()}


def test_control_c_says_how_to_go_on(study: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shards = out / "profile" / "shards"
    status, stderr = _stop_when(
        lambda: len(list(shards.glob("shard-*"))) > 1, signal.SIGINT, study, out
    )
    assert status == 130
    assert "Traceback" not in stderr
    assert stderr.splitlines()[-1] == (
        "interrupted; continue with: dwise train --model recipe.yaml --workload prompts.jsonl "
        f"--out {out} --resume"
    )
    result = dwise("train", *FLAGS, "--out", out, cwd=study)
    assert result.returncode == 0, result.stderr
    assert same_result(out, study / "run") == []
