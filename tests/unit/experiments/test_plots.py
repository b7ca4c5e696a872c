from __future__ import annotations

from xml.etree import ElementTree

from dwise_predict.experiments.plots import bars, boxes, lines
from dwise_predict.experiments.values import Value


def text_of(svg: bytes) -> str:
    return " ".join(ElementTree.fromstring(svg).itertext())


def test_bars_have_the_papers_dots_where_it_has_a_figure() -> None:
    values = [
        Value(arrival, run, "speedup", seed, 1.0 + seed)
        for arrival in ("burst", "burst+poisson")
        for run in ("SGLang", "DWISE", "DWISE extended")
        for seed in (0, 1)
    ]
    text = text_of(bars("speedup", "times faster")(values))
    for word in ("burst", "burst+poisson", "SGLang", "DWISE extended", "here", "paper"):
        assert word in text
    alone = [Value("", "no such run", "nothing", 0, 2.0)]
    assert "paper" not in text_of(bars("nothing", "nothing", log=True)(alone))


def test_lines_and_boxes_name_what_they_show() -> None:
    text = text_of(
        lines({"mean": {"SGLang": {0.5: 1.0, 2.0: 9.0}}}, "load", "seconds", log_x=True, log_y=True)
    )
    assert all(word in text for word in ("mean", "SGLang", "load", "seconds"))
    assert "chat (3)" in text_of(boxes({"chat": [1.0, 2.0, 9.0], "code": [4.0]}, "rounds"))


def test_the_same_figures_give_the_same_picture() -> None:
    values = [Value("burst", "DWISE", "speedup", 0, 2.0)]
    assert bars("speedup", "x")(values) == bars("speedup", "x")(values)
