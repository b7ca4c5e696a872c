from __future__ import annotations

import pytest
from pydantic import ValidationError

from dwise_predict.bundle import PredictorBundle
from dwise_predict.errors import BundleError
from dwise_predict.zoo import ZooEntry, bundled_folder, read_index

SHIPPED = [entry for entry in read_index() if entry.shipped]
OTHERS = [entry for entry in read_index() if entry.status == "recipe only"]


def test_the_models_of_the_paper_are_listed() -> None:
    assert [entry.name for entry in SHIPPED] == ["tiny"]
    assert {entry.name for entry in OTHERS} == {
        *("llada2.0-mini", "llada2.1-mini", "llada2.2-mini", "sdar-8b", "diffusiongemma-26b-a4b")
    }
    for entry in OTHERS:
        assert "could not run its weights" in entry.note
        with pytest.raises(BundleError, match="is published yet"):
            PredictorBundle.from_pretrained(entry.name)


@pytest.mark.parametrize("entry", SHIPPED, ids=lambda entry: entry.name)
def test_what_is_listed_is_what_the_shipped_bundle_says(entry: ZooEntry) -> None:
    bundle = PredictorBundle.from_pretrained(entry.name)
    assert bundle.verify() == []
    assert bundle.config.fingerprint == entry.fingerprint
    metrics, listed = bundle.metrics, entry.metrics
    assert listed is not None
    assert (metrics.n_eval, metrics.rounds.p50) == (listed.n_eval, listed.rounds_p50)
    for stored, shown in (
        (metrics.admission.spearman, listed.admission_spearman),
        (metrics.refined.spearman, listed.refined_spearman),
        (metrics.refined.spearman_within, listed.refined_spearman_within),
        (metrics.refined.median_ratio, listed.refined_median_ratio),
    ):
        assert stored == pytest.approx(shown, abs=5e-4)
    bundle.check_private()
    sizes = [path.stat().st_size for path in bundled_folder(entry.name).iterdir()]
    assert sum(sizes) < 4 * 2**20


def test_names_of_the_zoo_win_over_folders(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "tiny").mkdir()
    monkeypatch.chdir(tmp_path)
    assert PredictorBundle.from_pretrained("tiny").config.fingerprint.model == "builtin:tiny"
    with pytest.raises(BundleError, match=r"is no bundle: it has no config\.json"):
        PredictorBundle.from_pretrained("./tiny")
    with pytest.raises(BundleError, match="has no revision 'v1'"):
        PredictorBundle.from_pretrained("tiny", revision="v1")


ENTRY = {"name": "x", "model": "X", "note": "n"}
FINGERPRINT = SHIPPED[0].fingerprint
METRICS = SHIPPED[0].metrics


@pytest.mark.parametrize(
    "fields",
    [
        {"status": "recipe only", "metrics": METRICS},
        {"status": "recipe only", "fingerprint": FINGERPRINT},
        {"status": "recipe only", "bundle": "a/dwise-x", "revision": "0" * 40},
        {"status": "published", "fingerprint": FINGERPRINT, "metrics": METRICS},
        {"status": "published", "bundle": "a/dwise-x", "revision": "0" * 40},
        {
            **{"status": "published", "bundle": "a/dwise-x"},
            **{"fingerprint": FINGERPRINT, "metrics": METRICS},
        },
    ],
)
def test_numbers_without_a_bundle_cannot_be_listed(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ZooEntry.model_validate(ENTRY | fields)
