from __future__ import annotations

from xml.etree import ElementTree

import numpy as np

from dwise_predict.evaluation.results_plots import (
    latency_bars,
    latency_cdf,
    panel,
    round_timeline,
)
from dwise_predict.simulation.timeline import Timeline


def timeline(rounds: int, requests: int = 2) -> Timeline:
    recorded = Timeline()
    for i in range(rounds):
        recorded.record([i % requests], [i % 2 == 0])
    return recorded


def text(svg: bytes) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter() if element.text]


def test_a_panel_ends_with_the_run() -> None:
    shown = panel("fcfs", timeline(10), slots=3, start=8, width=4)
    assert (shown.first, shown.total, shown.state.shape) == (6, 10, (3, 4))
    assert panel("fcfs", timeline(3), slots=3, start=2, width=4).state.shape == (3, 3)


def test_titles_say_what_the_rounds_held() -> None:
    svg = round_timeline([panel("fcfs", timeline(10), 4, 0, 10)])
    title = "fcfs: rounds 0 to 9 of 10, 1.0 of 4 slots filled, 50% of the rounds prompts only"
    assert title in text(svg)


def test_letters_for_a_few_requests() -> None:
    assert {"A", "B"} <= set(text(round_timeline([panel("a", timeline(4), 2, 0, 4)])))
    assert "A" not in text(round_timeline([panel("a", timeline(40, 13), 2, 0, 40)]))


def test_every_run_is_named() -> None:
    runs = [(f"run{i}$x", np.arange(1.0, 9.0) * (i + 1)) for i in range(9)]
    assert {label for label, _ in runs} <= set(text(latency_cdf(runs)))
    bars = latency_bars([(label, 1.5, 22.5) for label, _ in runs])
    assert {"run3$x", "1.5", "22.5"} <= set(text(bars))


def test_the_same_data_give_the_same_bytes() -> None:
    once, again = (round_timeline([panel("a", timeline(9), 4, 0, 9)]) for _ in range(2))
    assert once == again
