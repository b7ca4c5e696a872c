"""The hidden-state tap: pooled means and refined estimates, made inside the forward pass.

All tensors that a captured CUDA graph touches are allocated once and only ever written in place,
inputs come from and results go to pinned host memory, and nothing waits for the device: the
results are there when the decoding algorithm has synchronised to read its own (paper Section 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

if TYPE_CHECKING:
    from dwise_predict.predictors.calibration import CalibrationMap
    from dwise_predict.predictors.refiner import Refiner

_FAR = 1e6


class HiddenTap:
    """Reads the final normed hidden states of every block in a round.

    Args:
        block_size: tokens per block.
        rows: most blocks of a forward pass, padding included.
        refiner: predicts remaining rounds for each row; None: only the means are taken.
        curves: bring back whole distributions, not only expectations.
    """

    def __init__(
        self, block_size: int, rows: int, refiner: Refiner | None, curves: bool = False
    ) -> None:
        self.block_size = block_size
        self.rows = rows
        self._refiner = refiner
        self._curves = curves
        self._knots = _host_knots(None if refiner is None else refiner.calibration)
        self._first: tuple[tuple[int, int, int], ...] = ()
        self._means: Tensor | None = None

    @property
    def refines(self) -> bool:
        """Whether there are estimates."""
        return self._refiner is not None

    def begin_round(self, first: Sequence[tuple[int, int, int]]) -> None:
        """Name the rows in their first denoising round: (row, prompt tokens, budget tokens)."""
        self._first = tuple(first)
        if self._means is not None:
            self._write_counts()

    def after_logits(self, hidden_states: Tensor) -> None:
        """Pool and refine inside the forward pass; ``[rows * block, hidden]``, padding included.

        Runs in every pass on a GPU, so that each captured graph holds it; on a CPU only where a
        row is in its first denoising round.
        """
        if self._means is None:
            self._allocate(hidden_states)
        if hidden_states.device.type == "cpu" and not self._first:
            return
        assert self._means is not None
        rows = hidden_states.shape[0] // self.block_size
        means = self._means[:rows]
        blocks = hidden_states.view(rows, self.block_size, -1)
        torch.mean(blocks, dim=1, dtype=torch.float32, out=means)
        if self._refiner is None:
            return
        counts = self._counts[:rows]
        counts.copy_(self._counts_host[:rows], non_blocking=True)
        survival = self._refiner(means, counts[:, 0], counts[:, 1]).survival()
        self._expected_host[:rows].copy_(survival.sum(-1), non_blocking=True)
        if self._curves:
            self._survival_host[:rows].copy_(survival, non_blocking=True)

    def means(self, rows: Sequence[int]) -> npt.NDArray[np.float16]:
        """Hidden means of ``rows``, float16 ``[n, hidden]``; after the round."""
        assert self._means is not None
        values: npt.NDArray[np.float16] = self._means[list(rows)].cpu().numpy().astype(np.float16)
        return values

    def estimates(self, rows: Sequence[int]) -> npt.NDArray[np.float64]:
        """Typical remaining rounds of ``rows``, float64 ``[n]``; after the round."""
        values: npt.NDArray[np.float64] = np.interp(self._expected[rows], *self._knots)
        return values

    def residuals(self, rows: Sequence[int]) -> npt.NDArray[np.float64]:
        """Typical remaining rounds after t further rounds, ``[n, K + 1]``; after the round."""
        survival = self._survival_host.numpy()[rows].astype(np.float64)
        ahead = survival[:, ::-1].cumsum(1)[:, ::-1]
        alive = survival > 0
        expected = np.where(alive, ahead / np.where(alive, survival, 1), 1.0)
        values: npt.NDArray[np.float64] = np.interp(expected, *self._knots)
        return values

    def _allocate(self, hidden: Tensor) -> None:
        device, pinned = hidden.device, hidden.is_cuda
        # SGLang runs in inference mode, whose tensors could not be written outside of it.
        with torch.inference_mode(False):
            self._means = torch.zeros(self.rows, hidden.shape[-1], device=device)
            self._counts_host = torch.ones(self.rows, 2, pin_memory=pinned)
            self._counts_view = self._counts_host.numpy()
            self._counts = torch.ones(self.rows, 2, device=device)
            if self._refiner is not None:
                self._refiner = self._refiner.to(device)
                self._expected_host = torch.ones(self.rows, pin_memory=pinned)
                self._expected = self._expected_host.numpy()
                if self._curves:
                    columns = self._refiner.horizon + 1
                    self._survival_host = torch.ones(self.rows, columns, pin_memory=pinned)
        self._write_counts()

    def _write_counts(self) -> None:
        for row, prompt_tokens, budget_tokens in self._first:
            self._counts_view[row, 0] = prompt_tokens
            self._counts_view[row, 1] = budget_tokens


def _host_knots(
    calibration: CalibrationMap | None,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Knots for ``np.interp``, with one far away on the line that the map goes on along."""
    if calibration is None:
        return np.array([0.0, _FAR]), np.array([0.0, _FAR])
    knots = np.array([calibration.raw, calibration.calibrated])
    raw, calibrated = np.append(knots, knots[:, -1:] * _FAR, axis=1)
    return raw, calibrated
