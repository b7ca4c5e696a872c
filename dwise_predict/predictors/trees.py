"""A strict parser of the LightGBM text of small regression models.

LightGBM's own reader trusts its input: a changed child index or size makes it loop or read out of
bounds. Bundles come from other people, so their text is parsed here first, against the narrow
grammar that :mod:`dwise_predict.predictors.admission` writes, and only then handed to LightGBM.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from dwise_predict.predictors.features import column_names
from dwise_predict.recipe import AdmissionFeatures

END = "end of trees\n"
_MOST_INFO = 90
"""Longest description of a feature's range, and the space after it."""
_FEATURE_INFO = re.compile(r"none|\[(?P<low>[^\[\]: ]{1,40}):(?P<high>[^\[\]: ]{1,40})\]")
_INTEGER = re.compile(r"-?[0-9]{1,10}")
_NUMBER = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,40})?([eE][-+]?[0-9]{1,3})?")
# Bit 0: categorical, bit 1: missing goes left, bits 2-3: kind of missing value. Features are
# counts, never missing in training, so only numerical splits without missing values are written.
_NUMERICAL_DECISIONS = frozenset({0, 2})


class TreeTextError(ValueError):
    """The text is not a model this library could have written; says where and why."""


@dataclass(frozen=True)
class Tree:
    """One binary tree; node 0 is the root, a child c >= 0 is node c, c < 0 is leaf -c - 1.

    A value up to the node's threshold goes left. A tree of one leaf has no node.
    """

    split_feature: list[int]
    threshold: list[float]
    left_child: list[int]
    right_child: list[int]
    leaf_value: list[float]


@dataclass(frozen=True)
class TreeText:
    """A model whose text has been checked."""

    structure: tuple[Tree, ...]
    features: AdmissionFeatures

    @property
    def trees(self) -> int:
        """Number of trees."""
        return len(self.structure)

    @property
    def leaves(self) -> int:
        """Most leaves of any tree."""
        return max(len(tree.leaf_value) for tree in self.structure)

    @property
    def largest(self) -> float:
        """No input gives a larger output: the largest leaves of all trees, added up."""
        return sum(max(tree.leaf_value) for tree in self.structure)


def check_tree_text(
    text: str, max_trees: int, max_leaves: int, features: AdmissionFeatures = "sizes"
) -> TreeText:
    """Check that ``text`` is a complete, well-formed LightGBM regression model.

    Every tree must be a proper binary tree (each node and leaf reached exactly once), with
    numerical splits on known features, finite numbers and the byte sizes that the header states.

    Args:
        text: the model up to and including the line ``end of trees``.
        max_trees: most trees allowed.
        max_leaves: most leaves allowed in one tree.
        features: what its columns are.

    Raises:
        TreeTextError: anything else.
    """
    if not text.isascii():
        raise TreeTextError("it contains characters outside ASCII")
    head, separator, _ = text.partition("\n\nTree=0\n")
    if not separator:
        raise TreeTextError("it holds no tree")
    columns = column_names(features)
    sizes = _check_header(head, columns)
    if len(sizes) > max_trees:
        raise TreeTextError(f"it holds {len(sizes)} trees, at most {max_trees} were expected")
    position, structure = len(head) + 2, []
    for index, size in enumerate(sizes):
        structure.append(
            _check_tree(index, text[position : position + size], max_leaves, len(columns))
        )
        position += size
    if text[position:] != END:
        raise TreeTextError(
            f"the line {END.strip()!r} must follow tree {len(sizes) - 1} and end it"
        )
    return TreeText(tuple(structure), features)


def _check_header(head: str, columns: tuple[str, ...]) -> list[int]:
    header = (
        ("version", r"v4"),
        ("num_class", r"1"),
        ("num_tree_per_iteration", r"1"),
        ("label_index", r"0"),
        ("max_feature_idx", str(len(columns) - 1)),
        ("objective", r"regression"),
        ("feature_names", " ".join(columns)),
        ("feature_infos", rf"[^\n]{{1,{_MOST_INFO * len(columns)}}}"),
        ("tree_sizes", r"[0-9]{1,9}( [0-9]{1,9})*"),
    )
    lines = head.split("\n")
    if lines[0] != "tree" or len(lines) != len(header) + 1:
        raise TreeTextError("its header differs from that of a LightGBM v4 regression model")
    values = {}
    for line, (name, pattern) in zip(lines[1:], header, strict=True):
        key, _, value = line.partition("=")
        if key != name or re.fullmatch(pattern, value) is None:
            raise TreeTextError(f"header line {line[:60]!r} should be {name}={pattern[:80]}")
        values[name] = value
    infos = values["feature_infos"].split(" ")
    if len(infos) != len(columns):
        raise TreeTextError(f"feature_infos describes {len(infos)} features, not {len(columns)}")
    for info in infos:
        match = _FEATURE_INFO.fullmatch(info)
        if match is None:
            raise TreeTextError(f"feature_infos entry {info[:60]!r} is not a numerical range")
        if match["low"] is not None:
            _floats("feature_infos", f"{match['low']} {match['high']}", 2)
    return [int(size) for size in values["tree_sizes"].split(" ")]


def _check_tree(index: int, block: str, max_leaves: int, columns: int) -> Tree:
    name = f"tree {index}"
    lines = block.split("\n")
    if lines[0] != f"Tree={index}" or lines[-3:] != ["", "", ""]:
        raise TreeTextError(f"{name} does not begin and end where tree_sizes says")
    fields: dict[str, str] = {}
    for line in lines[1:-3]:
        key, separator, value = line.partition("=")
        if not separator or key in fields:
            raise TreeTextError(f"{name}: line {line[:60]!r} is malformed or repeated")
        fields[key] = value
    if tuple(fields) != _TREE_FIELDS:
        raise TreeTextError(f"{name}: fields differ from {', '.join(_TREE_FIELDS)}")
    leaves = _integers(name, fields["num_leaves"], 1)[0]
    if not 1 <= leaves <= max_leaves:
        raise TreeTextError(f"{name}: {leaves} leaves, expected 1 to {max_leaves}")
    if fields["num_cat"] != "0" or fields["is_linear"] != "0":
        raise TreeTextError(f"{name}: categorical splits and linear leaves are not used here")
    _floats(name, fields["shrinkage"], 1)
    values = _floats(name, fields["leaf_value"], leaves)
    _integers(name, fields["leaf_count"], leaves)
    _floats(name, fields["leaf_weight"], 0 if leaves == 1 else leaves)
    nodes = leaves - 1
    for key in ("split_gain", "internal_value", "internal_weight"):
        _floats(name, fields[key], nodes)
    thresholds = _floats(name, fields["threshold"], nodes)
    _integers(name, fields["internal_count"], nodes)
    features = _integers(name, fields["split_feature"], nodes)
    if not set(features) <= set(range(columns)):
        raise TreeTextError(f"{name}: split_feature outside 0..{columns - 1}")
    if not set(_integers(name, fields["decision_type"], nodes)) <= _NUMERICAL_DECISIONS:
        raise TreeTextError(f"{name}: decision_type is not numerical")
    left = _integers(name, fields["left_child"], nodes)
    right = _integers(name, fields["right_child"], nodes)
    _check_shape(name, left, right)
    return Tree(features, thresholds, left, right, values)


_TREE_FIELDS = (
    "num_leaves",
    "num_cat",
    "split_feature",
    "split_gain",
    "threshold",
    "decision_type",
    "left_child",
    "right_child",
    "leaf_value",
    "leaf_weight",
    "leaf_count",
    "internal_value",
    "internal_weight",
    "internal_count",
    "is_linear",
    "shrinkage",
)


def _check_shape(name: str, left: list[int], right: list[int]) -> None:
    """Children as in :class:`Tree`.

    Each node but the root and each leaf must occur once as a child, and a child node must come
    after its parent (LightGBM numbers nodes in order of creation), which excludes cycles.
    """
    nodes = len(left)
    expected = sorted([*range(1, nodes), *(-leaf - 1 for leaf in range(nodes + 1))])
    if nodes and sorted(left + right) != expected:
        raise TreeTextError(f"{name}: children do not form a binary tree")
    for parent in range(nodes):
        if any(0 <= child <= parent for child in (left[parent], right[parent])):
            raise TreeTextError(f"{name}: node {parent} has a child that does not come after it")


def _tokens(name: str, value: str, count: int) -> list[str]:
    tokens = value.split(" ") if value else []
    if len(tokens) != count:
        raise TreeTextError(f"{name}: {len(tokens)} values where {count} were expected")
    return tokens


def _integers(name: str, value: str, count: int) -> list[int]:
    tokens = _tokens(name, value, count)
    for token in tokens:
        if _INTEGER.fullmatch(token) is None or abs(int(token)) > 2**31 - 1:
            raise TreeTextError(f"{name}: {token[:40]!r} is not a 32-bit integer")
    return [int(token) for token in tokens]


def _floats(name: str, value: str, count: int) -> list[float]:
    tokens = _tokens(name, value, count)
    for token in tokens:
        if _NUMBER.fullmatch(token) is None or not math.isfinite(float(token)):
            raise TreeTextError(f"{name}: {token[:40]!r} is not a finite number")
    return [float(token) for token in tokens]
