"""The tap against the bundle's refiner, without an engine."""

import numpy as np
import pytest
import torch

from dwise_predict.engines.hidden_tap import HiddenTap
from dwise_predict.predictors.calibration import CalibrationMap
from dwise_predict.predictors.network import MemberMLP
from dwise_predict.predictors.refiner import Normalisation, Refiner

BLOCK, ROWS, HIDDEN, HORIZON = 4, 6, 8, 40
CALIBRATION = CalibrationMap((1.0, 5.0, 20.0), (1.0, 4.0, 15.0))


def refiner(calibration=CALIBRATION):
    generators = [torch.Generator().manual_seed(i) for i in range(2)]
    network = MemberMLP(2, (HIDDEN + 2, 16, 16, HORIZON), generators)
    normalisation = Normalisation(torch.zeros(HIDDEN + 2), torch.ones(HIDDEN + 2))
    return Refiner(network, normalisation, calibration)


def pooled(tap, first, rows=ROWS, seed=0):
    hidden = torch.randn(rows * BLOCK, HIDDEN, generator=torch.Generator().manual_seed(seed))
    tap.begin_round(first)
    with torch.inference_mode():
        tap.after_logits(hidden)
    return hidden.view(rows, BLOCK, HIDDEN).mean(1)


@pytest.mark.parametrize("calibration", [CALIBRATION, None])
def test_estimates_are_the_refiner_s_for_rows_named(calibration):
    tap = HiddenTap(BLOCK, ROWS, refiner(calibration))
    curved = HiddenTap(BLOCK, ROWS, refiner(calibration), curves=True)
    for seed, first in enumerate([[(1, 30, 64), (4, 900, 256)], [(0, 7, 8)]]):
        rows = [row for row, *_ in first]
        means = pooled(tap, first, seed=seed)
        predicted = refiner(calibration)(
            means[rows], [prompt for _, prompt, _ in first], [budget for *_, budget in first]
        )
        np.testing.assert_allclose(np.squeeze(tap.estimates(rows), 1), predicted.mean(), rtol=1e-5)
        np.testing.assert_allclose(tap.means(rows), means[rows].numpy(), atol=1e-3)
        pooled(curved, first, seed=seed)
        curves = np.array(curved.estimates(rows))
        assert curves.shape == (len(rows), HORIZON + 1)
        for elapsed in (0, 3, HORIZON):
            np.testing.assert_allclose(
                curves[:, elapsed], predicted.mean_residual(elapsed), rtol=1e-4
            )


def test_buffers_stay_where_captured_graphs_expect_them():
    tap = HiddenTap(BLOCK, ROWS, refiner())
    pooled(tap, [(0, 5, 5)])
    before = [tensor.data_ptr() for tensor in (tap._means, tap._counts, tap._counts_host)]
    pooled(tap, [(3, 9, 9)], rows=4)
    assert before == [t.data_ptr() for t in (tap._means, tap._counts, tap._counts_host)]


def test_a_prediction_that_is_no_number_stays_one():
    tap = HiddenTap(BLOCK, ROWS, refiner())
    tap.begin_round([(0, 5, 5)])
    hidden = torch.full((ROWS * BLOCK, HIDDEN), torch.nan)
    with torch.inference_mode():
        tap.after_logits(hidden)
    assert np.isnan(tap.estimates([0])).all()
