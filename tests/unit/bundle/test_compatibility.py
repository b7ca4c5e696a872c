from __future__ import annotations

import pytest

from dwise_predict.bundle.compatibility import compare_fingerprints
from dwise_predict.fingerprint import Fingerprint
from tests.synthetic import fingerprint

BUNDLE = fingerprint(64)
HASHES = ("a" * 64, "b" * 64)


def changed(**fields: object) -> Fingerprint:
    return BUNDLE.model_copy(update=fields)


def test_the_same_is_compatible() -> None:
    verdict = compare_fingerprints(BUNDLE, changed())
    assert verdict.level == "compatible" and verdict.usable
    assert str(verdict) == "compatible"


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("revision", "89abcde", ["89abcde", "0123abc", "if the weights changed"]),
        ("revision", None, ["unknown"]),
        ("budget_tokens", 512, ["512 tokens", "trained with 256", "predicted too short"]),
        ("budget_tokens", 128, ["predicted too long"]),
        ("engine", "sglang", ["engine is sglang", "trained on torch", "other rounds"]),
        ("engine_version", "3", ["is 3", "trained on 2.13.0", "biased"]),
        ("dtype", "bfloat16", ["bfloat16", "rounding differs"]),
    ],
)
def test_differences_that_make_predictions_worse_are_warnings(
    field: str, value: object, words: list[str]
) -> None:
    verdict = compare_fingerprints(BUNDLE, changed(**{field: value}))
    assert verdict.level == "compatible with warnings" and verdict.usable
    (difference,) = verdict.differences
    assert difference.field == field
    for word in words:
        assert word in difference.sentence


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("model", "acme/other", ["acme/other", "unrelated"]),
        ("architecture", "Other", ["Other", "unrelated"]),
        ("hidden_size", 128, ["128 numbers", "takes 64", "nothing can be refined"]),
        ("algorithm", "JointThreshold", ["JointThreshold", "wrong scale"]),
        ("algorithm_parameters", {"threshold": 0.95}, ["threshold is 0.95", "with 0.9"]),
        ("algorithm_parameters", {}, ["threshold is not set"]),
        ("block_size", 32, ["32 tokens", "blocks of 16", "every estimate is wrong"]),
        ("fdfo", False, ["first out is off", "it was on", "neighbours"]),
        ("work_unit", "rounds", ["count something else"]),
    ],
)
def test_differences_that_make_predictions_meaningless_are_fatal(
    field: str, value: object, words: list[str]
) -> None:
    target = changed(**{field: value, "revision": None if field == "model" else BUNDLE.revision})
    verdict = compare_fingerprints(BUNDLE, target)
    assert verdict.level == "incompatible" and not verdict.usable
    (difference,) = verdict.differences
    assert difference.fatal and difference.field.startswith(field)
    for word in words:
        assert word in difference.sentence


def test_every_field_of_a_fingerprint_matters() -> None:
    """A field that is added must get a sentence, too."""
    for field, value in BUNDLE:
        if isinstance(value, bool):
            other: object = not value
        elif isinstance(value, int):
            other = value + 1
        else:
            other = {"threshold": 0.1} if isinstance(value, dict) else f"{value}-2"
        verdict = compare_fingerprints(BUNDLE, changed(**{field: other}))
        assert field in {d.field.split(".")[0] for d in verdict.differences} | (
            {"revision"} if field == "model" else set()
        ), field


def test_the_same_weights_under_another_name_are_a_warning() -> None:
    for revision in ("a" * 64, "0123456789" * 4):  # a content hash, a commit
        bundle = changed(revision=revision)
        verdict = compare_fingerprints(bundle, changed(model="local:x", revision=revision))
        assert verdict.level == "compatible with warnings"
        assert "the weights are the same" in verdict.differences[0].sentence


@pytest.mark.parametrize("revision", ["main", "v1.0", "0123abc", None])
def test_a_branch_of_the_same_name_says_nothing_about_weights(revision: str | None) -> None:
    bundle = changed(model="inclusionAI/LLaDA2.0-mini", revision=revision)
    target = changed(model="inclusionAI/LLaDA2.1-mini", revision=revision)
    verdict = compare_fingerprints(bundle, target)
    assert verdict.level == "incompatible"
    assert "hidden states and rounds of another model are unrelated" in str(verdict)


def test_other_content_hashes_are_other_weights() -> None:
    before, after = (BUNDLE.model_copy(update={"revision": value}) for value in HASHES)
    assert compare_fingerprints(before, after).level == "incompatible"


def test_all_differences_are_named_in_the_order_of_the_fingerprint() -> None:
    verdict = compare_fingerprints(BUNDLE, changed(dtype="float16", block_size=4, engine="sglang"))
    assert [d.field for d in verdict.differences] == ["block_size", "engine", "dtype"]
    lines = str(verdict).splitlines()
    assert lines[0] == "incompatible" and len(lines) == 4
    assert lines[1].startswith("- blocks have 4 tokens")
    assert lines[3].startswith("- warning: numbers are float16")
