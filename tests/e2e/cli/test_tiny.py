"""``dwise-train --model tiny`` on a small built-in workload, killed once on the way."""

import time
from pathlib import Path

from dwise_predict.profile import read_profile
from dwise_predict.tiny import checkpoint_dir
from tests.runs import DWISE_TRAIN, dwise, same_result, start_train

FLAGS = (
    *("--model", "tiny", "--seed", "11", "--resume"),
    *("--set", "workload.train=48", "--set", "workload.eval=24"),
    *("--set", "profile.shard_requests=24", "--set", "predictors.refiner.epochs=10"),
)


def test_the_embedded_model_trains_and_a_killed_run_gives_the_same(tmp_path: Path) -> None:
    killed = tmp_path / "killed"
    process = start_train(*FLAGS, "--out", killed, cwd=tmp_path)
    while not (killed / "profile/shards/shard-00000").exists() and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    process.communicate(timeout=60)
    resumed = dwise(*FLAGS, "--out", killed, cwd=tmp_path, program=DWISE_TRAIN)
    assert resumed.returncode == 0, resumed.stderr

    whole = dwise(*FLAGS, cwd=tmp_path, program=DWISE_TRAIN)
    assert whole.returncode == 0, whole.stderr
    assert whole.stdout.endswith("bundle  runs/tiny/bundle\nreport  runs/tiny/report.html\n")
    assert same_result(killed, tmp_path / "runs/tiny") == []

    profile = read_profile(killed / "profile")
    assert profile.run.fingerprint.model == "builtin:tiny"
    assert set(profile.requests["finish_reason"].to_pylist()) <= {"eos", "budget"}
    assert len(set(profile.requests["category"].to_pylist())) == 8
    assert profile.requests["split"].to_pylist() == ["train"] * 48 + ["eval"] * 24
    assert (checkpoint_dir() / "model.safetensors").stat().st_size < 16 * 2**20
