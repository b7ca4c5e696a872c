"""A small tree ensemble as a table: its output is constant between neighbouring thresholds.

With the three features ``sizes`` and a few dozen thresholds each, the whole ensemble is a step
function on a grid of some thousand cells. One prediction is then three binary searches and a
look-up, a tenth of what walking a hundred trees takes, and needs no LightGBM.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dwise_predict.predictors.features import SIZES
from dwise_predict.predictors.trees import Tree

MAX_CELLS = 2**21
"""Largest grid, 16 MiB."""
MAX_ADDITIONS = 2**28
"""Most additions of leaves to cells, some tenths of a second."""

Box = list[tuple[int, int]]


@dataclass(frozen=True)
class StepTable:
    """The grid and the ensemble's output in each cell.

    Attributes:
        thresholds: of each feature, increasing; cell i holds values above threshold i - 1 and up
            to threshold i.
        values: sums of leaves, float64 ``[len(thresholds[0]) + 1, ...]``, one axis per feature.
            They are added in the order of the trees, as LightGBM does, so the bits are the same.
    """

    thresholds: tuple[list[float], ...]
    values: NDArray[np.float64]

    @classmethod
    def build(cls, trees: Sequence[Tree]) -> StepTable | None:
        """Make the table of trees on the features ``sizes``; None when it would be too large."""
        found: list[set[float]] = [set() for _ in SIZES]
        for tree in trees:
            for feature, threshold in zip(tree.split_feature, tree.threshold, strict=True):
                found[feature].add(threshold)
        thresholds = tuple(sorted(values) for values in found)
        shape = tuple(len(values) + 1 for values in thresholds)
        cells = math.prod(shape)
        if cells > MAX_CELLS or cells * len(trees) > MAX_ADDITIONS:
            return None
        values = np.zeros(shape)
        for tree in trees:
            for box, leaf in _leaves(tree, thresholds, shape):
                values[tuple(slice(*side) for side in box)] += leaf
        return cls(thresholds, values)

    def cells(self, features: NDArray[np.float64]) -> NDArray[np.intp]:
        """Flat index into ``values`` of each row, ``[n, features]`` to ``[n]``."""
        indices = [
            np.searchsorted(values, column, side="left")
            for values, column in zip(self.thresholds, features.T, strict=True)
        ]
        flat: NDArray[np.intp] = np.ravel_multi_index(tuple(indices), self.values.shape)
        return flat


def _leaves(
    tree: Tree, thresholds: Sequence[list[float]], shape: Sequence[int]
) -> Iterator[tuple[Box, float]]:
    """Each leaf of a tree with the cells it covers, a range per feature."""
    whole: Box = [(0, size) for size in shape]
    if not tree.split_feature:
        yield whole, tree.leaf_value[0]
        return
    waiting = [(0, whole)]
    while waiting:
        node, box = waiting.pop()
        if node < 0:
            yield box, tree.leaf_value[-node - 1]
            continue
        feature = tree.split_feature[node]
        start, stop = box[feature]
        # Up to its threshold a value goes left.
        middle = bisect_left(thresholds[feature], tree.threshold[node]) + 1
        left, right = list(box), list(box)
        left[feature] = (start, max(start, min(middle, stop)))
        right[feature] = (min(stop, max(middle, start)), stop)
        waiting += [(tree.left_child[node], left), (tree.right_child[node], right)]
