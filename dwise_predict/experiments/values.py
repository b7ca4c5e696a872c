"""What experiments measure, and the paper's figures beside it."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from dwise_predict.experiments.measures import SPEEDUPS, TAILS
from dwise_predict.simulation.paper.comparison import OVER_SEEDS, published_figures

PAPER_MODEL = "LLaDA2.1-mini"
"""Whose figures stand beside ours: the paper studies everything on this one."""


class Value(NamedTuple):
    """One measured figure of one seed; ``arrival`` is empty where nothing was served."""

    arrival: str
    run: str
    figure: str
    seed: int
    value: float


class Key(NamedTuple):
    """What a figure is about."""

    arrival: str
    run: str
    figure: str


class Summary(NamedTuple):
    """A figure over seeds; ``spread`` is the standard deviation, 0 for one seed."""

    mean: float
    spread: float
    seeds: int


def summarised(values: Iterable[Value]) -> dict[Key, Summary]:
    """Mean and standard deviation over seeds, in order of appearance."""
    collected: dict[Key, list[float]] = {}
    for value in values:
        collected.setdefault(Key(*value[:3]), []).append(value.value)
    return {
        key: Summary(
            float(np.mean(found)),
            float(np.std(found, ddof=1)) if len(found) > 1 else 0.0,
            len(found),
        )
        for key, found in collected.items()
    }


@lru_cache
def paper_figures() -> Mapping[Key, float]:
    """The paper's figures of :data:`PAPER_MODEL`, speedups over SGLang included."""
    found = {
        Key(figure.arrival, figure.run, figure.figure): figure.value
        for figure in published_figures()
        if figure.model == PAPER_MODEL
    }
    text = files("dwise_predict.experiments").joinpath("published.csv").read_text("utf-8")
    for row in csv.DictReader(text.splitlines()):
        found[Key(row["arrival"], row["run"], row["figure"])] = float(row["value"])
    for name, latency in SPEEDUPS.items():
        for key, value in list(found.items()):
            sglang = found.get(key._replace(run="SGLang"))
            if key.figure == latency and sglang is not None and OVER_SEEDS not in key.run:
                found.setdefault(key._replace(figure=name), sglang / value)
    return found | _tails(found)


def _tails(found: Mapping[Key, float]) -> dict[Key, float]:
    """Table 16 as ratios, with the category as the run."""
    ratios = {}
    for key, value in found.items():
        for tail, name in TAILS.items():
            category = key.figure.removesuffix(f"_{tail}_s")
            sglang = found.get(key._replace(run="SGLang"))
            if key.run == "DWISE" and category != key.figure and sglang is not None:
                ratios[Key(key.arrival, category, name)] = sglang / value
    return ratios
