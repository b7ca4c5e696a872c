"""What the refiner answers: distributions over the rounds that remain after the first one."""

from __future__ import annotations

import torch
from torch import Tensor

from dwise_predict.predictors.calibration import CalibrationMap
from dwise_predict.predictors.survival import pmf_from_survival


class RemainingRounds:
    """Distributions of ``n`` requests over their remaining denoising rounds, 1..K + 1.

    Whatever survives the horizon K is counted as ending in round K + 1.

    Two kinds of answers, on purpose on two scales:

    * *Estimates* (:meth:`mean`, :meth:`mean_residual`) are expected remaining rounds passed
      through the calibration map, which puts them on the scale of the admission predictor: the
      typical (median) request, not the mean, of a right-skewed distribution. The same map is
      applied at any elapsed round, so ``mean_residual(0) == mean()`` and estimates of requests at
      different progress stay comparable. ``calibrated=False`` gives the expectations themselves.
    * *Probabilities* (:meth:`survival`, :meth:`pmf`, :meth:`quantile`) are what the likelihood
      fitted and are never mapped: squeezing them to move the mean would spoil their coverage.

    Args:
        survival: P(remaining > k) in column k = 0..K, float ``[n, K + 1]``, on any device.
        calibration: monotone map of expected remaining rounds; None leaves them as they are.
    """

    def __init__(self, survival: Tensor, calibration: CalibrationMap | None = None) -> None:
        if survival.ndim != 2 or survival.shape[1] < 2:
            raise ValueError(f"survival must be [n, K + 1] with K >= 1, not {survival.shape}")
        self._survival = survival
        self._calibration = calibration

    def __len__(self) -> int:
        return self._survival.shape[0]

    @property
    def horizon(self) -> int:
        """K, the last round that is modelled one by one."""
        return self._survival.shape[1] - 1

    def survival(self) -> Tensor:
        """P(remaining > k) for k = 0..K, ``[n, K + 1]``."""
        return self._survival

    def pmf(self) -> Tensor:
        """P(remaining = k) for k = 1..K + 1, ``[n, K + 1]``; rows sum to 1."""
        return pmf_from_survival(self._survival)

    def mean(self, calibrated: bool = True) -> Tensor:
        """Remaining rounds, ``[n]``, between 1 and K + 1 before calibration."""
        return self._estimate(self._survival.sum(-1), calibrated)

    def quantile(self, q: float) -> Tensor:
        """Smallest k with P(remaining <= k) >= q, int64 ``[n]``, in 1..K + 1.

        Raises:
            ValueError: q is not between 0 and 1 (exclusive).
        """
        if not 0 < q < 1:
            raise ValueError(f"q must lie between 0 and 1, not {q}")
        # Rounding must not push a probability of exactly q below it; column 0 (S = 1) always
        # exceeds the threshold, so that the count is at least 1.
        threshold = min((1 - q) * (1 + 1e-6), 1 - 1e-7)
        return (self._survival > threshold).sum(-1)

    def mean_residual(self, elapsed: int | Tensor, calibrated: bool = True) -> Tensor:
        """Rounds still to come for requests that went on for ``elapsed`` rounds since the first.

        ``E[remaining - t | remaining > t]`` at t = elapsed. A running request has at least one
        round left, so from round K + 1 on, where the distribution has nothing to say, it is 1.

        Args:
            elapsed: rounds since the first denoising round, >= 0: one number, or int64 ``[n]``.
            calibrated: apply the calibration map.

        Returns:
            float ``[n]``.

        Raises:
            ValueError: an elapsed count is negative.
        """
        survival = self._survival
        t = torch.as_tensor(elapsed, device=survival.device).expand(len(self))
        if bool((t < 0).any()):
            raise ValueError("elapsed must be >= 0")
        column = t.clamp(max=self.horizon).unsqueeze(-1).long()
        known = self._expected_residuals().gather(-1, column).squeeze(-1)
        return self._estimate(torch.where(t <= self.horizon, known, 1.0), calibrated)

    def mean_residuals(self, calibrated: bool = True) -> Tensor:
        """:meth:`mean_residual` for every elapsed count at once: t = 0..K, float ``[n, K + 1]``."""
        return self._estimate(self._expected_residuals(), calibrated)

    def _expected_residuals(self) -> Tensor:
        survival = self._survival
        ahead = survival.flip(-1).cumsum(-1).flip(-1)
        alive = survival > 0
        return torch.where(alive, ahead / survival.where(alive, 1.0), 1.0)

    def _estimate(self, expected: Tensor, calibrated: bool) -> Tensor:
        if calibrated and self._calibration is not None:
            return self._calibration(expected)
        return expected
