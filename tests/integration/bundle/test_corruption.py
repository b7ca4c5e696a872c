"""A thousand seeded corruptions of the shipped bundle, in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from dwise_predict.recipe import AdmissionSettings, PredictorSettings, RefinerSettings
from dwise_predict.training import train_bundle
from dwise_predict.zoo import bundled_folder
from tests import corruption
from tests.runs import environment
from tests.synthetic import synthetic_examples, with_tokens, write_profile

ROOT = Path(__file__).parents[3]
TINY = bundled_folder("tiny")
SECONDS = 1.0
MEGABYTES = 500
HARMLESS = {"flip", "replace", "truncate", "grow", "rename", "huge", "retype", "graft"}
"""Kinds of which some change what nothing depends on (the card's words, a count, a name), so that
an attacker who repairs the hashes has simply written another bundle."""


def corrupted(first: int, count: int, mode: str, bundle: Path = TINY) -> list[dict[str, object]]:
    """What became of ``count`` corruptions; a crash or hang of the worker fails the test."""
    arguments = [str(bundle), str(first), str(count), mode]
    worker = subprocess.run(
        [sys.executable, "-m", "tests.corruption", *arguments],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=600,
    )
    lines = [json.loads(line) for line in worker.stdout.splitlines()]
    assert worker.returncode == 0, (lines[-1:], worker.stderr)
    rows = [a | b for a, b in zip(lines[::2], lines[1::2], strict=True)]
    assert len(rows) == count
    return rows


def test_a_thousand_corruptions_are_refused_quickly_and_in_little_memory() -> None:
    rows = corrupted(0, 1000, "plain")
    kinds = Counter(row["kind"] for row in rows)
    assert kinds.keys() == corruption.KINDS.keys() and min(kinds.values()) > 30
    for row in rows:
        assert row["outcome"].startswith("refused: "), row
        assert row["seconds"] < SECONDS, row
    assert rows[-1]["peak_kb"] < MEGABYTES * 1024


def test_repaired_hashes_do_not_make_damage_dangerous() -> None:
    rows = corrupted(10_000, 300, "rehashed")
    loaded = {row["kind"] for row in rows if row["outcome"] == "loaded"}
    assert loaded <= HARMLESS
    refused = [row for row in rows if row["outcome"] != "loaded"]
    assert len(refused) > 200
    assert max(row["seconds"] for row in rows) < SECONDS
    assert rows[-1]["peak_kb"] - rows[0]["peak_kb"] < MEGABYTES * 1024


def test_a_thousand_features_do_not_make_damage_dangerous(tmp_path: Path) -> None:
    examples = [with_tokens(synthetic_examples(n, n, 8), n) for n in (80, 40)]
    profile = write_profile(tmp_path / "profile", *examples)
    settings = PredictorSettings(
        admission=AdmissionSettings(features="extended"),
        refiner=RefinerSettings(width=16, epochs=2, members=2),
    )
    train_bundle(profile, tmp_path / "bundle", settings, seed=0)
    for mode, count in (("plain", 60), ("rehashed", 200)):
        rows = corrupted(20_000, count, mode, tmp_path / "bundle")
        loaded = {row["kind"] for row in rows if row["outcome"] == "loaded"}
        assert loaded <= (HARMLESS if mode == "rehashed" else set())
        assert max(row["seconds"] for row in rows) < SECONDS
