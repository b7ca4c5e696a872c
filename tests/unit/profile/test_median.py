"""The median repeat against sorting by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import median_low

import numpy as np
import pytest

from dwise_predict.errors import ProfileError
from dwise_predict.profile import Profile, read_profile
from dwise_predict.profile.median import median_profile
from tests.synthetic import synthetic_examples, write_profile


def repeats(tmp_path: Path, count: int) -> list[Profile]:
    """Profiles of the same requests; the later ones are shuffled, with other rounds and means."""
    train = synthetic_examples(30, 1, 4, abort_share=0.3)
    evaluation = synthetic_examples(12, 2, 4, abort_share=0.3)
    ids = [f"r{i}" for i in range(42)]
    found = []
    for number in range(count):
        rng = np.random.default_rng(number)
        change = [
            replace(
                e,
                rounds=np.maximum(1, e.rounds + rng.integers(-3, 4, len(e)) * (number > 0)),
                hidden=e.hidden + number,
                finish_reason=np.where(rng.random(len(e)) < 0.2, "abort", e.finish_reason),
            )
            for e in (train, evaluation)
        ]
        profile = read_profile(write_profile(tmp_path / str(number), *change, request_ids=ids))
        if number:
            order = rng.permutation(42)
            profile = replace(
                profile, requests=profile.requests.take(order), hidden=profile.hidden[order]
            )
        found.append(profile)
    return found


def rows(profile: Profile) -> dict[str, tuple[dict[str, object], list[float]]]:
    listed = zip(profile.requests.to_pylist(), profile.hidden.tolist(), strict=True)
    return {row["request_id"]: (row, hidden) for row, hidden in listed}


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_each_training_request_is_its_median_repeat(tmp_path: Path, count: int) -> None:
    runs = repeats(tmp_path, count)
    found = median_profile(runs[0], runs[1:])
    by_run = [rows(run) for run in runs]
    ids = runs[0].requests["request_id"].to_pylist()
    assert found.requests["request_id"].to_pylist() == ids
    differ = 0
    for request_id, (row, hidden) in rows(found).items():
        ended = [
            own[request_id] for own in by_run if own[request_id][0]["finish_reason"] != "abort"
        ]
        if row["split"] == "eval" or not ended:
            assert (row, hidden) == by_run[0][request_id]
            continue
        middle = median_low([own["rounds"] for own, _ in ended])
        assert row["rounds"] == middle
        first = next(own for own in ended if own[0]["rounds"] == middle)
        assert (row, hidden) == first
        differ += (row, hidden) != by_run[0][request_id]
    assert differ > 5


def test_profiles_of_other_requests_are_refused(tmp_path: Path) -> None:
    first, second = repeats(tmp_path, 2)
    less = replace(second, requests=second.requests.slice(1), hidden=second.hidden[1:])
    with pytest.raises(ProfileError, match="not of the same requests"):
        median_profile(first, [less])
