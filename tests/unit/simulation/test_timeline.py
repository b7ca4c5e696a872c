from __future__ import annotations

from dwise_predict.simulation.timeline import DENOISING, IDLE, PROMPT, Timeline


def test_requests_keep_their_slots_and_newcomers_take_the_first_free_one() -> None:
    timeline = Timeline()
    for requests, prompt in (
        ([5, 3], [True, True]),
        ([3, 5], [False, True]),
        ([3, 7], [False, True]),
        ([8, 7, 3], [True, False, False]),
    ):
        timeline.record(requests, prompt)
    state, held = timeline.grid(0, 4, slots=3)
    assert len(timeline) == 4
    assert held.tolist() == [[5, 5, 7, 7], [3, 3, 3, 3], [-1, -1, -1, 8]]
    assert state.tolist() == [
        [PROMPT, PROMPT, PROMPT, DENOISING],
        [PROMPT, DENOISING, DENOISING, DENOISING],
        [IDLE, IDLE, IDLE, PROMPT],
    ]


def test_a_window_starts_afresh() -> None:
    timeline = Timeline()
    timeline.record([1, 2], [False, False])
    timeline.record([2], [False])
    state, held = timeline.grid(1, 9, slots=2)
    assert held.tolist() == [[2], [-1]]
    assert state.tolist() == [[DENOISING], [IDLE]]
