from __future__ import annotations

import itertools
from pathlib import Path
from random import Random

import pytest
import yaml

from dwise_predict.errors import WorkloadError
from dwise_predict.workload.answers import answer_correct, answer_kind
from dwise_predict.workload.paper import load_manifest, shares
from dwise_predict.workload.paper.manifest import PAPER
from dwise_predict.workload.paper.needles import needle_item
from dwise_predict.workload.paper.readers import READERS, last_boxed
from dwise_predict.workload.similarity import NearDuplicates, jaccard, word_runs

# The paper's Table 1: serving requests, training requests.
TABLE_1 = {
    "sharegpt": (1085, 542),
    "mbpp": (505, 250),
    "humaneval": (87, 46),
    "ifeval": (296, 148),
    "math": (421, 203),
    "gsm8k": (345, 180),
    "mgsm": (258, 129),
    "mmlu_pro": (637, 319),
    "arc_challenge": (312, 156),
    "multi_needle": (150, 75),
}


def test_the_manifest_is_table_1() -> None:
    manifest = load_manifest()
    assert {part.name: (part.eval, part.train) for part in manifest.parts} == TABLE_1
    assert shares(manifest.parts, "eval", 4096) == {n: e for n, (e, _) in TABLE_1.items()}
    assert shares(manifest.parts, "train", 2048) == {n: t for n, (_, t) in TABLE_1.items()}
    for source in manifest.sources:
        assert source.revision is not None and len(source.revision) == 40
        assert source.licence


@pytest.mark.parametrize("total", [0, 1, 7, 100, 4095])
def test_smaller_workloads_keep_the_proportions(total: int) -> None:
    counts = shares(load_manifest().parts, "eval", total)
    assert sum(counts.values()) == total
    for name, (full, _) in TABLE_1.items():
        assert abs(counts[name] - total * full / 4096) < 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"similarity": 0}, ["similarity", "greater than 0"]),
        ({"sources.0.reader": "wikipedia"}, ["wikipedia", "gsm8k"]),
        ({"sources.0.template": "{question}"}, ["template", "sharegpt", "prompt"]),
        ({"sources.0.files": ["../secret.json"]}, ["inside the repository"]),
        ({"sources.0.format": "tsv"}, ["columns"]),
        ({"sources.0.typo": 1}, ["sources.0.typo", "template"]),
        ({"sources.1.name": "sharegpt"}, ["name of its own"]),
        ({"needles.facts": [1, 4]}, ["2 to 20"]),
    ],
)
def test_a_wrong_manifest_is_refused_with_the_key(
    tmp_path: Path, change: dict[str, object], words: list[str]
) -> None:
    raw = yaml.safe_load(PAPER.read_text())
    for key, value in change.items():
        place = raw
        *parents, last = key.split(".")
        for parent in parents:
            place = place[int(parent)] if parent.isdigit() else place[parent]
        place[last] = value
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump(raw))
    with pytest.raises(WorkloadError) as caught:
        load_manifest(path)
    for word in ["own.yaml", *words]:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sources: [", "cannot read manifest"),
        ("name: 2024-13-45", "cannot read manifest .* month must be in 1..12"),
        ("just words", "is no list of data sets: expected the keys name, similarity, sources"),
        ("", "is no list of data sets"),
    ],
)
def test_a_file_that_is_no_manifest_is_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(text)
    with pytest.raises(WorkloadError, match=words) as caught:
        load_manifest(path)
    assert str(path) in str(caught.value)
    with pytest.raises(WorkloadError, match=r"cannot read manifest .*none\.yaml"):
        load_manifest(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("reader", "row", "content", "answer"),
    [
        (
            "sharegpt",
            {"conversations": [{"from": "human", "value": " Hi "}, {"from": "gpt", "value": "x"}]},
            "Hi",
            None,
        ),
        ("mbpp", {"text": "Add.", "test_list": ["a", "b"]}, "Add.\na\nb", None),
        ("humaneval", {"prompt": "def f():"}, "def f():", None),
        ("ifeval", {"prompt": "No commas."}, "No commas.", None),
        (
            "math",
            {"level": "Level 5", "problem": "1/2?", "solution": r"so \boxed{\frac{1}{2}}."},
            "1/2?",
            r"\frac{1}{2}",
        ),
        ("gsm8k", {"question": "How many?", "answer": "2+2\n#### 1,004"}, "How many?", "1,004"),
        ("mgsm", {"question": "Wie viele?", "answer": 18}, "Wie viele?", "18"),
        (
            "mmlu_pro",
            {"question": "Which?", "options": ["x", "y", "z"], "answer_index": 2},
            "Which?\nA. x\nB. y\nC. z",
            "C",
        ),
        (
            "arc",
            {
                "question": "Which?",
                "choices": {"text": ["x", "y"], "label": ["1", "2"]},
                "answerKey": "2",
            },
            "Which?\nA. x\nB. y",
            "B",
        ),
    ],
)  # fmt: skip
def test_rows_become_prompts_and_answers(reader, row, content, answer) -> None:
    item = READERS[reader].read(row)
    assert (item.content, item.answer) == (content, answer)
    assert tuple(item.fields) == READERS[reader].fields


def test_rows_that_are_no_prompt_are_left_out() -> None:
    assert READERS["sharegpt"].read({"conversations": [{"from": "gpt", "value": "x"}]}) is None
    assert READERS["sharegpt"].read({"conversations": []}) is None
    assert READERS["math"].read({"level": "Level 4", "problem": "p", "solution": "s"}) is None


@pytest.mark.parametrize(
    ("solution", "answer"),
    [
        (r"first \boxed{1}, then \boxed{2}", "2"),
        (r"\boxed{\left\{1,2\right\}}", r"\left\{1,2\right\}"),
        (r"\fbox{7}", "7"),
        (r"\boxed{", None),
        ("no box", None),
    ],
)
def test_the_last_box_with_its_braces(solution: str, answer: str | None) -> None:
    assert last_boxed(solution) == answer


def test_near_duplicates_are_found_exactly() -> None:
    """Against all pairs, on texts that share many runs of words."""
    rng = Random(0)
    words = [f"w{i}" for i in range(12)]
    texts = [[rng.choice(words) for _ in range(rng.randrange(3, 40))] for _ in range(150)]
    for i in range(0, 150, 3):  # and variants of each other, some of them near the threshold
        texts[i + 1] = [w if rng.random() > 0.04 else "new" for w in texts[i]]
        texts[i + 2] = texts[i][: rng.randrange(1, len(texts[i]) + 1)]
    for threshold in (0.5, 0.7, 1.0):
        known = NearDuplicates(threshold)
        kept: list[str] = []
        for text in map(" ".join, texts):
            runs = word_runs(text)
            unlike = all(jaccard(runs, word_runs(other)) < threshold for other in kept)
            assert known.add(text) == unlike
            if unlike:
                kept.append(text)
        assert 50 < len(kept) < 150


def test_case_punctuation_and_scripts_without_spaces() -> None:
    known = NearDuplicates(0.7)
    assert known.add("Anna has three apples and gives one to Ben.")
    assert not known.add("anna has THREE apples -- and gives one to ben")
    assert known.add("安娜有三个苹果、她给了本一个。她还剩几个苹果。")
    assert not known.add("安娜有三个苹果、她给了本一个。她还剩几个苹果呢。")
    assert known.add("本有七只猫、他又买了两只。他现在一共有几只猫。")
    assert known.add("hi")
    assert not known.add("Hi!")


def count(text: str) -> int:
    return len(text.split())


def test_long_prompts_have_the_asked_length_and_hide_every_fact() -> None:
    rng = Random(1)
    lengths, facts = [], set()
    for _ in range(40):
        item = needle_item(rng, 2_000, (2, 4), count)
        text = item.fields["prompt"]
        lengths.append(count(text))
        codes = (item.answer or "").split(", ")
        facts.add(len(codes))
        assert text.count("The access code of") == len(codes)
        assert all(f"is {code}." in text for code in codes)
        assert answer_kind(item.answer or "") == "items"
        assert answer_correct(item.answer or "", f"The codes are {item.answer}.")
        assert not answer_correct(item.answer or "", "0000, 1111")
    assert facts == {2, 3, 4}
    assert all(abs(length - 2_000) < 0.05 * 2_000 for length in lengths)
    assert len(set(lengths)) > 10


def test_long_prompts_do_not_resemble_each_other() -> None:
    rng = Random(2)
    runs = [word_runs(needle_item(rng, 8_000, (2, 4), count).fields["prompt"]) for _ in range(6)]
    assert max(jaccard(a, b) for a, b in itertools.combinations(runs, 2)) < 0.3


def test_the_same_seed_draws_the_same_prompt() -> None:
    assert needle_item(Random(3), 600, (2, 4), count) == needle_item(Random(3), 600, (2, 4), count)
