"""The hidden-state tap: pooled means and refined estimates, made inside the forward pass.

All tensors that a captured CUDA graph touches are allocated once and only ever written in place,
inputs come from and results go to pinned host memory, and nothing waits for the device: the
results are there when the decoding algorithm has synchronised to read its own (paper Section 5).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dwise_predict.predictors.calibration import interpolate
from dwise_predict.predictors.refiner import Refiner


class HiddenTap:
    """Reads the final normed hidden states of every block in a round.

    Args:
        block_size: tokens per block.
        rows: most blocks of a forward pass, padding included.
        refiner: predicts remaining rounds for each row; None: only the means are taken.
        curves: estimate for every number of further rounds, not only now.
    """

    def __init__(
        self, block_size: int, rows: int, refiner: Refiner | None, curves: bool = False
    ) -> None:
        self.block_size = block_size
        self.rows = rows
        self._refiner = refiner
        self._curves = curves
        self._knots: Tensor | None = None
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
        remaining = self._refiner(means, counts[:, 0], counts[:, 1])
        if self._curves:
            estimates = remaining.mean_residuals(calibrated=False)
        else:
            estimates = remaining.mean(calibrated=False).unsqueeze(1)
        if self._knots is not None:
            estimates = interpolate(estimates, self._knots)
        self._estimates_host[:rows].copy_(estimates, non_blocking=True)

    def means(self, rows: Sequence[int]) -> npt.NDArray[np.float16]:
        """Hidden means of ``rows``, float16 ``[n, hidden]``; after the round."""
        assert self._means is not None
        values: npt.NDArray[np.float16] = self._means[list(rows)].cpu().numpy().astype(np.float16)
        return values

    def estimates(self, rows: Sequence[int]) -> list[list[float]]:
        """Typical remaining rounds of each of ``rows``, in a list of one; after the round.

        With ``curves`` those after t further rounds, K + 1 numbers.
        """
        return [self._estimates[row].tolist() for row in rows]

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
                columns = self._refiner.horizon + 1 if self._curves else 1
                self._estimates_host = torch.ones(self.rows, columns, pin_memory=pinned)
                self._estimates = self._estimates_host.numpy()
                if (calibration := self._refiner.calibration) is not None:
                    self._knots = calibration.knots(torch.float32, device)
        self._write_counts()

    def _write_counts(self) -> None:
        for row, prompt_tokens, budget_tokens in self._first:
            self._counts_view[row, 0] = prompt_tokens
            self._counts_view[row, 1] = budget_tokens
