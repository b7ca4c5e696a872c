from __future__ import annotations

import numpy as np

from dwise_predict.bundle import PredictorBundle
from dwise_predict.bundle.smoke import (
    REFINER_TOLERANCE,
    WORDS,
    predict_smoke,
    smoke_differences,
    smoke_hidden,
)

BUNDLE = PredictorBundle.from_pretrained("tiny")


def test_the_inputs_follow_the_documented_formula() -> None:
    centre = np.array([1.0, -2.0, 5.0, 0.0, 0.0], dtype=np.float32)
    scale = np.array([2.0, 0.5, 0.0, 1.0, 1.0], dtype=np.float32)
    hidden = smoke_hidden(centre, scale)
    assert hidden.shape == (len(WORDS), 3) and hidden.dtype == np.float32
    for i in range(len(WORDS)):
        for j in range(3):
            s = ((i + 1) * (j + 1) % 7 - 3) / 2
            spread = 1 / scale[j] if scale[j] else 0
            assert hidden[i, j] == np.float32(centre[j] + s * spread)


def test_requests_differ_enough_to_notice_damage() -> None:
    assert BUNDLE.smoke is not None
    assert len(set(BUNDLE.smoke.mean)) == len(WORDS)
    assert len(set(BUNDLE.smoke.admission)) > len(WORDS) // 2


def test_small_numerical_differences_pass_and_others_are_named() -> None:
    smoke = BUNDLE.smoke
    assert smoke is not None
    near = [value * (1 + REFINER_TOLERANCE / 3) for value in smoke.mean]
    assert smoke_differences(smoke, smoke.model_copy(update={"mean": tuple(near)})) == []
    near[2] *= 1.02
    (line,) = smoke_differences(smoke, smoke.model_copy(update={"mean": tuple(near)}))
    assert line.startswith("mean: request 2 gives")
    shorter = smoke.model_copy(update={"words": smoke.words[:3]})
    assert smoke_differences(shorter, smoke) == ["words: 3 values are stored, 8 were predicted"]


def test_a_changed_weight_is_noticed() -> None:
    assert BUNDLE.smoke is not None
    tensors = BUNDLE.refiner.tensors()
    changed = BUNDLE.refiner.network.get_parameter("layer1_weight")
    original = changed.detach().clone()
    try:
        changed.data[0] *= 1.5
        found = predict_smoke(BUNDLE.admission, BUNDLE.refiner, tensors)
    finally:
        changed.data.copy_(original)
    names = {line.split(":")[0] for line in smoke_differences(BUNDLE.smoke, found)}
    assert {"mean", "mean_raw", "mean_residual"} == names
    assert BUNDLE.verify() == []
