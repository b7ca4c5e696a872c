"""Answers that are kept as they come."""

from __future__ import annotations

from pathlib import Path

import pytest

from dwise_predict.engines.sglang_engine.answers import Answers, correctness, read_answers
from dwise_predict.errors import ProfileError
from tests.profiles import small_workload

REQUESTS = small_workload(4)  # 1 and 3 expect the answer 7


def test_only_what_is_to_be_checked_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    with Answers(path) as answers:
        for request in REQUESTS:
            answers.add(request, "it is 7")
    assert "it is 7" not in path.read_text().splitlines()[0]
    texts = read_answers(path)
    assert texts == {"r000": None, "r001": "it is 7", "r002": None, "r003": "it is 7"}
    assert correctness(REQUESTS, {**texts, "r003": "8"}) == {"r001": True, "r003": False}
    assert correctness(REQUESTS, {}) == {}


def test_a_cut_line_is_dropped_and_the_next_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    with Answers(path) as answers:
        answers.add(REQUESTS[0], "")
    with path.open("a") as file:
        file.write('{"request_id": "r001", "te')
    assert list(read_answers(path)) == ["r000"]
    with Answers(path) as answers:
        assert list(answers.texts) == ["r000"]
        answers.add(REQUESTS[1], "7\nor so")
    assert read_answers(path) == {"r000": None, "r001": "7\nor so"}


@pytest.mark.parametrize("line", ["{", "[]", '{"request_id": "x"}'])
def test_damage_elsewhere_is_told(tmp_path: Path, line: str) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text(f'{{"request_id": "r000", "text": null}}\n{line}\n')
    with pytest.raises(ProfileError, match="damaged in line 2"):
        read_answers(path)


def test_no_file_is_no_answers(tmp_path: Path) -> None:
    assert read_answers(tmp_path / "none") == {}
