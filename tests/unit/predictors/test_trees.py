from __future__ import annotations

import random
import re

import numpy as np
import pytest

from dwise_predict.predictors.admission import fit_admission
from dwise_predict.predictors.features import feature_matrix
from dwise_predict.predictors.trees import TreeTextError, check_tree_text
from dwise_predict.recipe import AdmissionSettings
from tests.synthetic import synthetic_examples

EXAMPLES = synthetic_examples(300, seed=5, hidden=4)
TEXT = fit_admission(
    feature_matrix(EXAMPLES.words, EXAMPLES.newlines, EXAMPLES.prompt_tokens),
    EXAMPLES.rounds,
    AdmissionSettings(trees=6),
    seed=0,
).text


def resized(text: str) -> str:
    """Make tree_sizes right again after an edit inside the trees."""
    blocks = re.findall(r"Tree=\d+\n.*?\n\n\n", text, flags=re.S)
    return re.sub(r"tree_sizes=.*", "tree_sizes=" + " ".join(str(len(b)) for b in blocks), text)


def test_written_models_pass() -> None:
    checked = check_tree_text(TEXT, max_trees=6, max_leaves=15)
    assert checked.trees == 6
    assert resized(TEXT) == TEXT


def test_a_model_of_constant_rounds_passes() -> None:
    text = fit_admission(
        feature_matrix([1] * 30, [0] * 30, [9] * 30), EXAMPLES.rounds[:30] * 0 + 7,
        AdmissionSettings(), 0,
    ).text  # fmt: skip
    assert check_tree_text(text, 100, 15).leaves == 1


@pytest.mark.parametrize(
    ("pattern", "replacement", "finding"),
    [
        (r"left_child=\S+", "left_child=0", "binary tree"),
        (r"left_child=\S+", "left_child=9999", "binary tree"),
        (r"right_child=\S+", "right_child=-77", "binary tree"),
        (r"split_feature=\S+", "split_feature=3", "split_feature"),
        (r"decision_type=\S+", "decision_type=1", "decision_type"),
        (r"threshold=\S+", "threshold=nan", "not a finite number"),
        (r"leaf_value=\S+", "leaf_value=1e999", "not a finite number"),
        (r"leaf_value=\S+", "leaf_value=1 2", "values where"),
        (r"num_leaves=\d+", "num_leaves=2000000000", "leaves"),
        (r"num_leaves=\d+", "num_leaves=-1", "leaves"),
        (r"num_cat=0", "num_cat=1", "categorical"),
        (r"is_linear=0", "is_linear=1", "linear"),
        (r"split_gain=", "leaf_const=", "fields"),
        (r"shrinkage=", "num_cat=0\nshrinkage=", "repeated"),
        (r"version=v4", "version=v3", "version"),
        (r"max_feature_idx=2", "max_feature_idx=200000000", "max_feature_idx"),
        (r"objective=regression", "objective=custom", "objective"),
        (r"feature_infos=\S+", "feature_infos=[0:x]", "finite number"),
        (r"feature_infos=\S+", "feature_infos=0:1:2", "numerical range"),
        (r"end of trees\n", "end of trees\nparameters:\n", "end of trees"),
        (r"Tree=0", "Tree=O", "no tree"),
        (r"Tree=1", "Tree=2", "does not begin"),
        (r"words", "w\u00f6rds", "ASCII"),
    ],
)
def test_each_kind_of_hostile_edit_is_named(pattern: str, replacement: str, finding: str) -> None:
    hostile = re.sub(pattern, replacement, TEXT, count=1)
    assert hostile != TEXT
    with pytest.raises(TreeTextError, match=finding):
        check_tree_text(resized(hostile), max_trees=6, max_leaves=15)


def test_trees_are_checked_against_the_features_they_are_for() -> None:
    prompts = np.random.default_rng(0).integers(5_000, size=(len(EXAMPLES), 200))
    sizes = (EXAMPLES.words, EXAMPLES.newlines, EXAMPLES.prompt_tokens)
    settings = AdmissionSettings(trees=6, features="extended")
    matrix = feature_matrix(*sizes, list(prompts))
    rounds = matrix[:, 1026].astype(np.int64) + 1
    extended = fit_admission(matrix, rounds, settings, seed=0).text
    checked = check_tree_text(extended, 6, 15, "extended")
    assert checked.features == "extended"
    assert 1026 in {feature for tree in checked.structure for feature in tree.split_feature}
    for text, features in ((extended, "sizes"), (TEXT, "extended")):
        with pytest.raises(TreeTextError, match="max_feature_idx"):
            check_tree_text(text, 6, 15, features)
    for pattern, replacement, finding in (
        (r"split_feature=\S+", "split_feature=1027", "outside 0..1026"),
        (r"token_count_1023", "token_count_1024", "feature_names"),
        (r"feature_infos=\S+ ", "feature_infos=", "describes 1026 features, not 1027"),
        (r"feature_infos=\S+", f"feature_infos={'1' * 200_000}", "feature_infos"),
    ):
        hostile = re.sub(pattern, replacement, extended, count=1)
        assert hostile != extended
        with pytest.raises(TreeTextError, match=finding) as caught:
            check_tree_text(resized(hostile), 6, 15, "extended")
        assert len(str(caught.value)) < 300


def test_sizes_that_point_elsewhere_are_refused() -> None:
    for size in ("0", "999999999", "1"):
        hostile = re.sub(r"tree_sizes=\d+", f"tree_sizes={size}", TEXT)
        with pytest.raises(TreeTextError):
            check_tree_text(hostile, 6, 15)


def test_a_cycle_of_nodes_is_refused() -> None:
    text = re.sub(r"left_child=[^\n]*", "left_child=1 0", TEXT, count=1)
    text = re.sub(r"right_child=[^\n]*", "right_child=-1 -2", text, count=1)
    with pytest.raises(TreeTextError):
        check_tree_text(resized(text), 6, 15)


def test_more_trees_or_leaves_than_expected_are_refused() -> None:
    with pytest.raises(TreeTextError, match="6 trees"):
        check_tree_text(TEXT, max_trees=5, max_leaves=15)
    with pytest.raises(TreeTextError, match="leaves"):
        check_tree_text(TEXT, max_trees=6, max_leaves=2)


def test_damaged_text_is_either_refused_or_still_a_proper_model() -> None:
    """Flips, cuts and swaps anywhere: the parser returns or raises TreeTextError, nothing else."""
    rng = random.Random(0)
    refused = 0
    for _ in range(1500):
        text = list(TEXT)
        for _ in range(rng.randint(1, 3)):
            i = rng.randrange(len(text))
            text[i] = rng.choice("0123456789-.e= \n\x00[]:inf")
        damaged = "".join(text)
        if rng.random() < 0.1:
            damaged = damaged[: rng.randrange(len(damaged))]
        try:
            check_tree_text(damaged, 6, 15)
        except TreeTextError:
            refused += 1
    assert refused > 300
