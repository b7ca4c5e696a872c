from __future__ import annotations

from array import array
from collections import Counter

import numpy as np
import pytest

from dwise_predict.predictors.features import (
    column_names,
    feature_matrix,
    token_bins,
    token_counts,
)


def test_counts_are_of_token_ids_modulo_1024() -> None:
    ids = [0, 1, 1024, 1025, 1025, 151_935]
    expected = np.zeros(1024, dtype=int)
    for token, times in Counter(i % 1024 for i in ids).items():
        expected[token] = times
    assert expected[:2].tolist() == [2, 3]
    for same in (ids, tuple(ids), array("q", ids), np.array(ids, dtype=np.int32)):
        np.testing.assert_array_equal(token_counts(same), expected)


def test_of_long_prompts_both_ends_are_counted() -> None:
    ids = [*[1] * 512, *[2] * 300, *[3] * 512]
    assert token_counts(ids)[[1, 2, 3]].tolist() == [512, 0, 512]
    assert token_counts([1] * 1024).sum() == 1024
    assert token_counts([5] * 1025)[5] == 1024
    assert not token_counts([]).any()


def test_bins_are_sorted_and_stand_for_the_ids() -> None:
    ids = np.random.default_rng(0).integers(200_000, size=3_000)
    bins = token_bins(ids)
    assert bins == sorted(bins) and len(bins) == 1024
    np.testing.assert_array_equal(token_counts(bins), token_counts(ids))
    assert token_bins(bins) == bins


def test_a_matrix_has_the_sizes_and_then_the_counts() -> None:
    prompts = [[3, 3, 1027], [], [1023]]
    matrix = feature_matrix([1, 2, 3], [0, 1, 0], [9, 8, 7], prompts)
    assert matrix.shape == (3, len(column_names("extended"))) and matrix.dtype == np.float64
    np.testing.assert_array_equal(matrix[:, :3], feature_matrix([1, 2, 3], [0, 1, 0], [9, 8, 7]))
    for row, ids in zip(matrix, prompts, strict=True):
        np.testing.assert_array_equal(row[3:], token_counts(ids))
    assert column_names("extended")[3 + 1023] == "token_count_1023"
    assert feature_matrix([], [], [], []).shape == (0, 1027)


def test_prompts_must_align_with_sizes() -> None:
    with pytest.raises(ValueError, match="token_ids of 1 prompts, sizes of 2"):
        feature_matrix([1, 2], [1, 2], [1, 2], [[1]])
