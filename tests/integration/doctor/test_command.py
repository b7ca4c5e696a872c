"""``dwise doctor`` and the preflight of ``dwise train`` without Hub, GPU and SGLang."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

MAIN = "import sys; from dwise_predict.cli.main import main; sys.argv[0] = 'dwise'; main()"
pytestmark = pytest.mark.skipif(find_spec("sglang") is not None, reason="SGLang is installed here")


def dwise(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run in ``folder``, with an empty cache and a Hub at a closed port."""
    environment = os.environ | {
        "HF_HOME": str(folder / "hf"),
        "HF_ENDPOINT": "http://127.0.0.1:9",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    environment.pop("HF_HUB_OFFLINE", None)
    return subprocess.run(
        [sys.executable, "-c", MAIN, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_train_lists_all_that_is_missing_and_starts_nothing(tmp_path: Path) -> None:
    done = dwise(tmp_path, "train", "--model", "llada2.1-mini", "--set", "seed=3")
    assert done.returncode == 2
    missing = {line.split()[1] for line in done.stderr.splitlines() if line.startswith("MISSING")}
    assert missing == {"torch", "sglang", "gpu", "hub", "model", "data"}
    remedies = [line for line in done.stderr.splitlines() if line.strip().startswith("->")]
    assert len(remedies) >= len(missing)
    for words in (
        "pip install sglang==0.5.20",
        "inclusionAI/LLaDA2.1-mini@20e64e2ad21644d0e5248586ed9c942cdd45de0f is not in the cache",
        "sharegpt, mbpp, humaneval, ifeval, math, gsm8k, mgsm, mmlu_pro, arc_challenge",
        "6 of 15 checks failed, nothing was started",
        "  dwise doctor --model llada2.1-mini --set seed=3\n",
        "  dwise train --model llada2.1-mini --set seed=3",
    ):
        assert words in done.stderr, done.stderr
    assert not (tmp_path / "runs").exists()
    profiled = dwise(tmp_path, "profile", "--model", "sdar-8b")
    assert profiled.returncode == 2
    assert "  dwise profile --model sdar-8b" in profiled.stderr


def test_doctor_prints_the_same_list(tmp_path: Path) -> None:
    done = dwise(tmp_path, "doctor", "--model", "llada2.2-mini", "--json")
    assert done.returncode == 1
    findings = json.loads(done.stdout)
    assert [f["check"] for f in findings[:5]] == ["python", "packages", "torch", "sglang", "hooks"]
    assert all(f["remedy"] for f in findings if f["status"] == "missing")
    assert any("0.5.23" in f["message"] for f in findings if f["check"] == "sglang")
    lines = dwise(tmp_path, "doctor", "--model", "llada2.2-mini").stdout.splitlines()
    assert len([line for line in lines if not line.strip().startswith("->")]) == len(findings)


def test_the_embedded_model_lacks_nothing(tmp_path: Path) -> None:
    done = dwise(tmp_path, "doctor", "--model", "tiny")
    assert done.returncode == 0, done.stdout
    assert "MISSING" not in done.stdout
    assert "hub" not in done.stdout


def test_a_workload_file_needs_no_data_sets(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"prompt": "Hello"}\n')
    done = dwise(tmp_path, "doctor", "--model", "sdar-8b", "--workload", "p.jsonl", "--json")
    checks = {f["check"]: f["status"] for f in json.loads(done.stdout)}
    assert "data sets" not in checks
    assert checks["workload"] == "ok"
    gone = dwise(tmp_path, "doctor", "--model", "sdar-8b", "--workload", "q.jsonl", "--json")
    assert {f["check"]: f["status"] for f in json.loads(gone.stdout)}["workload"] == "missing"


def test_a_checkpoint_folder_needs_no_hub(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "config.json").write_text('{"architectures": ["SDARForCausalLM"]}')
    (tmp_path / "p.jsonl").write_text('{"prompt": "Hello"}\n')
    flags = ["--workload", "p.jsonl", "--set", "model.repo=own", "--json"]
    done = dwise(tmp_path, "doctor", "--model", "sdar-8b", *flags)
    checks = {f["check"]: f["status"] for f in json.loads(done.stdout)}
    assert checks["model"] == "ok"
    assert "hub" not in checks
    wrong = dwise(tmp_path, "doctor", "--model", "llada2.0-mini", *flags)
    (model,) = [f for f in json.loads(wrong.stdout) if f["check"] == "model"]
    assert model["status"] == "missing"
    assert "own is a SDARForCausalLM" in model["message"]


def test_the_plan_shows_the_whole_campaign(tmp_path: Path) -> None:
    done = dwise(tmp_path, "train", "--model", "llada2.1-mini", "--plan")
    assert done.returncode == 0, done.stderr
    for words in (
        "2048 training and 4096 evaluation requests",
        "weights 32.5 GB, data sets 0.8 GB",
        "about 0.44 GPU hours",
        "Table 2",
        "profile ",
    ):
        assert words in done.stdout
    own = dwise(tmp_path, "train", "--model", "sdar-8b", "--set", "model.repo=acme/own", "--plan")
    assert "unknown: the paper does not have this model" in own.stdout
    indel = dwise(tmp_path, "train", "--model", "llada2.2-mini", "--plan")
    assert "algorithm: JointThresholdInDel" in indel.stdout
