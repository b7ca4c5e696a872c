"""Every file in examples/ runs and prints what it is there to show."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs_pages import ROOT
from tests.runs import dwise

ELSEWHERE = {
    "tiny_engine.py": "a part of own_scheduler.py",
    "serve_tiny.py": "needs SGLang: tests/e2e/sglang/test_examples.py",
    "ask_server.py": "needs SGLang: tests/e2e/sglang/test_examples.py",
}


def example(name: str, *arguments: str, cwd: Path) -> str:
    """What the example prints."""
    result = subprocess.run(
        [sys.executable, str(ROOT / "examples" / name), *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"\d+\.\d+|\d+", text)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with the run of train.py, and what it printed."""
    folder = tmp_path_factory.mktemp("examples")
    return folder, example("train.py", cwd=folder)


def test_every_example_is_tested() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    for path in (ROOT / "examples").glob("*.py"):
        assert f'example("{path.name}"' in text or path.name in ELSEWHERE, path.name


def test_own_scheduler_orders_by_remaining_work(tmp_path: Path) -> None:
    fcfs, dwise_line, same = example("own_scheduler.py", cwd=tmp_path).splitlines()
    assert same == "the same answers: True"
    (rounds, mean, _), (dwise_rounds, dwise_mean, _) = numbers(fcfs), numbers(dwise_line)
    assert dwise_rounds < 0.8 * rounds
    assert dwise_mean < mean


def test_predict_needs_no_network(tmp_path: Path) -> None:
    printed = example("predict.py", cwd=tmp_path)
    assert printed.startswith("for builtin:tiny, LowConfidence")
    assert len(re.findall(r"^admission: .* rounds$", printed, re.MULTILINE)) == 2
    assert len(re.findall(r"^refined: ", printed, re.MULTILINE)) == 3
    assert "incompatible\n- blocks have 32 tokens" in printed


def test_train_makes_a_good_bundle(trained: tuple[Path, str]) -> None:
    folder, printed = trained
    admission, refined, bundle, five = printed.splitlines()
    assert numbers(refined)[0] > max(0.8, numbers(admission)[0] + 0.3)
    assert bundle == "bundle runs/example/bundle"
    assert numbers(five)[0] > 0.8
    assert dwise("verify", "runs/example/bundle", cwd=folder).returncode == 0


def test_simulate_compares(trained: tuple[Path, str]) -> None:
    printed = example("simulate.py", cwd=trained[0]).splitlines()[1:]
    rounds, means = {}, {}
    for line in printed:
        name, figures = re.split(r"  +", line, maxsplit=1)
        rounds[name], means[name] = numbers(figures)[:2]
    assert rounds["fcfs"] > 1.5 * rounds["dwise"]
    assert means["fcfs"] > means["fcfs in mixed rounds"] > means["dwise"] > means["oracle"]
    assert means["dwise, aging 10"] >= means["oracle"]


def test_who_waits_shows_both_sides(trained: tuple[Path, str]) -> None:
    policies = ("--policy", "fcfs", "--policy", "dwise")
    made = dwise(
        "simulate", "--profile", "runs/example", *policies, "--out", "runs/sim", cwd=trained[0]
    )
    assert made.returncode == 0, made.stderr
    printed = example("who_waits.py", "runs/sim", "fcfs", "dwise", cwd=trained[0]).splitlines()
    rows = {line.split()[0]: numbers(line) for line in printed[1:]}
    count, later, before, after = rows.pop("all")
    assert count == 192 == sum(row[0] for row in rows.values())
    assert 0 < later < 50
    assert before > 0 and after > 0


def test_ordering_gains_less_the_more_alike_requests_are(tmp_path: Path) -> None:
    lines = example("uniform_work.py", cwd=tmp_path).splitlines()[1:]
    gains = [numbers(line)[-1] for line in lines]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > 1.3 and gains[-1] < 1.1


def test_made_prompts_can_be_trained_on(tmp_path: Path) -> None:
    assert (
        example("make_prompts.py", "prompts.jsonl", cwd=tmp_path)
        == "300 prompts in prompts.jsonl\n"
    )
    flags = ("--model", "tiny", "--workload", "prompts.jsonl", "--out", "runs/mine", "--plan")
    plan = dwise("train", *flags, cwd=tmp_path)
    assert plan.returncode == 0, plan.stderr
    assert not (tmp_path / "runs").exists()
