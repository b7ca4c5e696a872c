"""``dwise train`` on a random model: real engine, real training, real files."""

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dwise_predict import PredictorBundle
from dwise_predict.profile import read_profile
from dwise_predict.workload.jsonl import read_jsonl
from tests.runs import dwise, same_result

TRAIN = ("train", "--model", "recipe.yaml", "--workload", "prompts.jsonl")


def _modified(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def copy(study: Path, tmp_path: Path) -> Path:
    """A study of one's own, to damage."""
    return Path(shutil.copytree(study, tmp_path / "study"))


def test_every_product_is_there_and_belongs_together(study: Path) -> None:
    run = study / "run"
    requests = read_jsonl(run / "workload.jsonl")
    assert [request.split for request in requests].count("eval") == 24
    profile = read_profile(run / "profile")
    assert profile.requests["request_id"].to_pylist() == [r.request_id for r in requests]
    predictions = pq.read_table(run / "predictions.parquet")
    assert predictions.column_names == [
        *("request_id", "category", "split", "rounds"),
        *("admission", "refined_raw", "refined"),
    ]
    assert predictions["rounds"].equals(profile.requests["rounds"])
    bundle = PredictorBundle.load(run / "bundle")
    assert bundle.config.fingerprint == profile.run.fingerprint
    assert (bundle.metrics.n_train, bundle.metrics.n_eval) == (48, 24)
    assert bundle.provenance.seconds.profile > 0
    assert "dwise train --model recipe.yaml" in bundle.provenance.command
    assert not list(run.rglob("*.tmp"))


def test_what_is_printed(study: Path) -> None:
    bundle = PredictorBundle.load(study / "run" / "bundle")
    stdout, stderr = (study / "stdout").read_text(), (study / "stderr").read_text()
    assert "served: 24 evaluation requests" in stdout
    assert re.search(r"right answers, a +\d/8", stdout)
    for quality in (bundle.metrics.admission, bundle.metrics.refined):
        assert f"{quality.mae:.3f}" in stdout
    assert stdout.endswith("bundle  run/bundle\nreport  run/report.html\n")
    assert "profile: done in" in stderr
    assert "\x1b" not in stdout + stderr


def test_resuming_a_finished_run_changes_nothing(study: Path) -> None:
    before = _modified(study / "run")
    result = dwise(*TRAIN, "--out", "run", "--resume", cwd=study)
    assert result.stdout == (study / "stdout").read_text()
    assert result.stderr == ""
    assert _modified(study / "run") == before


def test_another_run_gives_the_same_bytes(study: Path, tmp_path: Path) -> None:
    result = dwise(*TRAIN, "--out", tmp_path / "again", cwd=study)
    assert result.returncode == 0, result.stderr
    assert same_result(study / "run", tmp_path / "again") == []


def test_lost_products_are_made_again_from_what_is_left(copy: Path, study: Path) -> None:
    run = copy / "run"
    kept = _modified(run / "profile")
    (run / "predictions.parquet").unlink()
    (run / "report.html").unlink()
    result = dwise(*TRAIN, "--out", "run", "--resume", cwd=copy)
    assert result.returncode == 0, result.stderr
    assert _modified(run / "profile") == kept
    assert same_result(run, study / "run") == []
    assert (run / "report.html").is_file()


def test_profile_alone_then_train_is_train(study: Path, tmp_path: Path) -> None:
    flags = (*TRAIN[1:], "--out", tmp_path / "run")
    profiled = dwise("profile", *flags, cwd=study)
    assert profiled.stdout == f"profile: {tmp_path}/run/profile\n", profiled.stderr
    assert not (tmp_path / "run" / "bundle").exists()
    trained = dwise("train", *flags, "--resume", cwd=study)
    assert trained.returncode == 0, trained.stderr
    assert "profile: started" not in trained.stderr
    assert same_result(study / "run", tmp_path / "run") == []


def test_extended_admission_features_from_the_same_profile(study: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    extended = ("--set", "predictors.admission.features=extended")
    trained = dwise("train", "--profile", "run", *extended, "--out", run, cwd=study)
    assert trained.returncode == 0, trained.stderr
    verified = dwise("verify", run / "bundle", cwd=study)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "token_counts_1024" in dwise("inspect", run / "bundle", cwd=study).stdout
    assert "token_counts_1024" in (run / "report.html").read_text()
    changed = dwise("diff", "run/bundle", run / "bundle", cwd=study).stdout
    assert "settings.admission.features: sizes -> extended" in changed
    flags = ("--profile", run, "--bundle", run / "bundle", "--policy", "dwise")
    simulated = dwise("simulate", *flags, cwd=study)
    assert simulated.returncode == 0, simulated.stderr


class _Page(HTMLParser):
    """Collects what a page would load, its ids and its open elements."""

    VOID = ("meta", "br", "link", "img")

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.ids: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href") and not str(value).startswith("#"):
                self.loads.append(str(value))
            if name == "id":
                self.ids.append(str(value))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_report_is_one_well_formed_page_that_loads_nothing(study: Path) -> None:
    text = (study / "run" / "report.html").read_text()
    page = _Page()
    page.feed(text)
    assert page.open == []
    assert page.loads == []
    assert len(page.ids) == len(set(page.ids))
    assert "<script" not in text and "@import" not in text and "url(http" not in text
    assert text.count("<svg") == 5
    metrics = PredictorBundle.load(study / "run" / "bundle").metrics
    assert f"{metrics.refined.median_ratio:.3f} after" in text
    for category in "abc":
        assert f"<td>{category}</td>" in text


def test_the_report_can_be_rebuilt_to_the_same_bytes(copy: Path) -> None:
    report = copy / "run" / "report.html"
    before = report.read_bytes()
    report.unlink()
    assert dwise("report", "run", cwd=copy).stdout == "report: run/report.html\n"
    assert report.read_bytes() == before


def test_inspect_shows_the_fingerprint_and_finds_damage(copy: Path) -> None:
    shown = dwise("inspect", "run/bundle", cwd=copy).stdout
    assert "LowConfidence" in shown and "threshold 0.5" in shown and "median ratio" in shown
    with (copy / "run" / "bundle" / "admission.txt").open("ab") as file:
        file.write(b"\n")
    result = dwise("inspect", "run/bundle", cwd=copy)
    assert result.returncode == 2
    assert "run/bundle/admission.txt" in result.stderr
