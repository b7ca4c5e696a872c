"""Bundles of other format versions."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

import pytest

from dwise_predict.bundle import PredictorBundle
from dwise_predict.bundle.schema import MINOR, config_bytes
from dwise_predict.errors import BundleError
from dwise_predict.zoo import bundled_folder
from tests import corruption

OLD = Path(__file__).parents[2] / "data" / "bundle-1.0"
"""Written by the library of format 1.0."""


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return Path(shutil.copytree(bundled_folder("tiny"), tmp_path / "bundle"))


def rewrite(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_bytes(config_bytes(json.loads(path.read_bytes()) | changes))
    corruption.rehash(folder)


def test_an_older_minor_version_loads_predicts_and_is_copied_as_it_is(tmp_path: Path) -> None:
    old = PredictorBundle.load(OLD)
    assert old.config.format_version == "1.0"
    assert old.smoke is None
    assert old.admission.rounds(words=3, newlines=0, prompt_tokens=9) >= 1
    with pytest.raises(BundleError, match="stores no expected predictions"):
        old.verify()
    old.save(tmp_path / "copy")
    for path in OLD.iterdir():
        assert (tmp_path / "copy" / path.name).read_bytes() == path.read_bytes()


def test_a_changed_older_bundle_is_refused(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(OLD, tmp_path / "old"))
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text.replace('"seed": 0', '"seed": 1'))
    with pytest.raises(BundleError, match="changed after it was written"):
        PredictorBundle.load(folder)


def test_a_newer_minor_version_loads_without_what_came_later(
    bundle: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = json.loads((bundle / "config.json").read_bytes())
    (bundle / "later.bin").write_bytes(b"later")
    rewrite(
        bundle,
        format_version=f"1.{MINOR + 1}",
        later={"deep": [1]},
        admission=config["admission"] | {"calibrated": True},
        files=config["files"] | {"later.bin": {}},
    )
    metrics = json.loads((bundle / "metrics.json").read_bytes())
    metrics["survival"]["later"] = 1.0
    (bundle / "metrics.json").write_text(json.dumps(metrics))
    corruption.rehash(bundle)
    with caplog.at_level(logging.WARNING):
        newer = PredictorBundle.load(bundle)
    assert "what came later is ignored" in caplog.text
    assert newer.verify() == []
    with pytest.raises(BundleError, match="cannot copy all of it"):
        newer.save(bundle.parent / "copy")


def test_unknown_keys_of_this_version_are_damage(bundle: Path) -> None:
    rewrite(bundle, later=1)
    with pytest.raises(BundleError, match=r"config\.json: key 'later'"):
        PredictorBundle.load(bundle)


@pytest.mark.parametrize(
    ("version", "advice"),
    [
        ("2.0", "upgrade it with: pip install --upgrade dwise-predict"),
        ("2.7", "upgrade it with"),
        ("0.9", "use the version of dwise-predict that wrote the bundle"),
        ("1", "expected a string like"),
        ("1.x", "expected a string like"),
        (1.1, "expected a string like"),
        (None, "expected a string like"),
    ],
)
def test_other_versions_are_refused_with_advice(bundle: Path, version: object, advice: str) -> None:
    rewrite(bundle, format_version=version)
    with pytest.raises(BundleError, match="format_version") as caught:
        PredictorBundle.load(bundle)
    assert advice in str(caught.value)


def test_json_of_another_spelling_is_refused(bundle: Path) -> None:
    """One content has one spelling, so that no byte of it can change unseen."""
    path = bundle / "config.json"
    for changed in (
        path.read_bytes().replace(b'"seed": 0', b'"seed":  0'),
        path.read_bytes().replace(b'"seed": 0', b'"seed": 0,\n "seed": 0'),
        path.read_bytes() + b"\n",
    ):
        assert changed != path.read_bytes()
        path.write_bytes(changed)
        with pytest.raises(BundleError, match="changed after it was written"):
            PredictorBundle.load(bundle)
