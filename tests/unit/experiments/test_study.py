"""Kept answers and results that were damaged since."""

from __future__ import annotations

from pathlib import Path

import pytest

from dwise_predict.errors import ExperimentError
from dwise_predict.experiments.case import Case
from dwise_predict.experiments.settings import Settings
from dwise_predict.experiments.study import Answer, Study, computed_work
from dwise_predict.experiments.values import Value
from dwise_predict.experiments.work import run_all
from dwise_predict.progress import SILENT
from tests.experiments import settings


def answer(settings: Settings, seed: int) -> Answer:
    return {"A": {"quality": seed + 0.5, "unknown": None}, "B": {"quality": 2.0}}


def test_answers_are_kept_for_every_seed_without_what_is_not_defined(tmp_path: Path) -> None:
    study = Study(settings(tmp_path, seeds=2))
    run_all(computed_work(study.settings, "quality", study.seeds, answer), study.settings, SILENT)
    assert study.answers("quality", study.seeds) == [
        Value("", "A", "quality", 0, 0.5),
        Value("", "B", "quality", 0, 2.0),
        Value("", "A", "quality", 1, 1.5),
        Value("", "B", "quality", 1, 2.0),
    ]


@pytest.mark.parametrize("content", [b"", b'{"A": {"quality": 0.', b"[1, 2]", b'{"A": {"q": "x"}}'])
def test_a_damaged_answer_is_named_with_what_to_do(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "base" / "computed" / "seed-0" / "quality.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(ExperimentError) as refused:
        Study(settings(tmp_path)).answers("quality", [0])
    assert str(refused.value) == f"{path} is damaged: delete it and run the same command again"


def test_damaged_results_are_named_with_what_to_do(tmp_path: Path) -> None:
    place = tmp_path / "torch" / "served" / "seed-0" / "burst_dwise"
    place.mkdir(parents=True)
    with pytest.raises(ExperimentError, match=r"cannot read .*requests.parquet") as refused:
        Study(settings(tmp_path)).results(0, Case("DWISE"))
    advice = f": delete the folder {place} and run the same command again"
    assert str(refused.value).endswith(advice)
