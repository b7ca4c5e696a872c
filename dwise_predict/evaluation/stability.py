"""How stable labels are: rounds of the same requests in several servings (paper Table 11)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dwise_predict.errors import ProfileError
from dwise_predict.profile import Batching, Profile
from dwise_predict.rank import mean_absolute_error, spearman
from dwise_predict.validation import describe


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Agreement(_Record):
    """Rounds of the same requests in two servings."""

    requests: int = Field(ge=0, description="Served to their end in both.")
    left_out: int = Field(ge=0, description="Aborted in one of them: their rounds say nothing.")
    identical: float | None = Field(
        description="Share with exactly the same rounds; None: no request is left."
    )
    spearman: float | None = Field(
        description="Rank correlation of rounds; None: undefined (constant values)."
    )
    mean_difference: float | None = Field(description="Mean absolute difference in rounds.")


class Comparison(_Record):
    """Two profiles of the same requests."""

    a: str = Field(description="Folder of one, inside the run folder.")
    b: str = Field(description="Folder of the other.")
    batching: tuple[Batching, Batching] = Field(description="How rounds were formed.")
    overall: Agreement = Field(description="All requests.")
    by_category: dict[str, Agreement] = Field(description="Each category.")


class Stability(_Record):
    """stability.json."""

    format: Literal["dwise-stability"] = "dwise-stability"
    format_version: Literal[1] = 1
    profiles: dict[str, str] = Field(description="SHA-256 of each requests.parquet, by folder.")
    comparisons: tuple[Comparison, ...] = Field(
        description="Every pair of profiles of stock batching, and the first with mixed batching."
    )


class Row(_Record):
    """What is shown of a group of comparisons: means over its pairs where they are defined."""

    compared: str
    category: str
    pairs: int
    requests: int
    identical: float | None
    spearman: float | None
    mean_difference: float | None


STOCK, MIXED = "repeats", "stock against mixed"
"""Names of the groups of comparisons."""
ALL = "all"


def measure_stability(profiles: Mapping[str, Profile]) -> Stability:
    """Compare profiles of the same requests, by folder; the first is the recipe's own.

    Raises:
        ProfileError: they are not of the same requests.
    """
    stock = [name for name, each in profiles.items() if each.run.batching == "stock"]
    mixed = [name for name, each in profiles.items() if each.run.batching == "mixed"]
    pairs = [*itertools.combinations(stock, 2), *((stock[0], name) for name in mixed)]
    return Stability(
        profiles={name: each.run.files["requests.parquet"] for name, each in profiles.items()},
        comparisons=tuple(_compared(a, profiles[a], b, profiles[b]) for a, b in pairs),
    )


def agreement(a: NDArray[np.int64], b: NDArray[np.int64], finished: NDArray[np.bool_]) -> Agreement:
    """Compare the rounds ``a`` and ``b`` of ``n`` requests where ``finished``, all ``[n]``."""
    a, b = a[finished], b[finished]
    some = len(a) > 0
    return Agreement(
        requests=len(a),
        left_out=int((~finished).sum()),
        identical=float((a == b).mean()) if some else None,
        spearman=spearman(a, b),
        mean_difference=mean_absolute_error(a, b) if some else None,
    )


def summary_rows(stability: Stability) -> list[Row]:
    """What to show: all requests and each category, of repeats and of batchings."""
    groups = {
        STOCK: [c for c in stability.comparisons if c.batching == ("stock", "stock")],
        MIXED: [c for c in stability.comparisons if c.batching == ("stock", "mixed")],
    }
    return [
        _row(name, category, [c.by_category[category] for c in group])
        if category != ALL
        else _row(name, ALL, [c.overall for c in group])
        for name, group in groups.items()
        if group
        for category in (ALL, *group[0].by_category)
    ]


def read_stability(path: Path) -> Stability | None:
    """What a ``stability.json`` says; None where there is none.

    Raises:
        ProfileError: it is damaged.
    """
    if not path.is_file():
        return None
    try:
        return Stability.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise ProfileError(
            f"{path} is damaged ({describe(error, Stability, 'key')}): delete it and run again "
            "with --resume"
        ) from error


def _compared(a: str, first: Profile, b: str, second: Profile) -> Comparison:
    rounds_a, ended_a = _labels(first)
    rounds_b, ended_b = _labels(second)
    if rounds_a.keys() != rounds_b.keys():
        raise ProfileError(f"{a} and {b} are not profiles of the same requests")
    names = list(rounds_a)
    left = np.array([rounds_a[name] for name in names], dtype=np.int64)
    right = np.array([rounds_b[name] for name in names], dtype=np.int64)
    finished = np.array([ended_a[name] and ended_b[name] for name in names], dtype=bool)
    category = np.array(first.requests["category"].to_pylist(), dtype=np.str_)
    return Comparison(
        a=a,
        b=b,
        batching=(first.run.batching, second.run.batching),
        overall=agreement(left, right, finished),
        by_category={
            str(name): agreement(*(x[category == name] for x in (left, right, finished)))
            for name in np.unique(category)
        },
    )


def _labels(profile: Profile) -> tuple[dict[str, int], dict[str, bool]]:
    """Rounds, and whether served to the end, by request id in the order of the profile."""
    columns = profile.requests.select(["request_id", "rounds", "finish_reason"]).to_pydict()
    ids = columns["request_id"]
    ended = [reason != "abort" for reason in columns["finish_reason"]]
    return dict(zip(ids, columns["rounds"], strict=True)), dict(zip(ids, ended, strict=True))


def _row(compared: str, category: str, found: Sequence[Agreement]) -> Row:
    return Row(
        compared=compared,
        category=category,
        pairs=len(found),
        requests=max(each.requests for each in found),
        identical=_mean([each.identical for each in found]),
        spearman=_mean([each.spearman for each in found]),
        mean_difference=_mean([each.mean_difference for each in found]),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
