"""Remaining rounds predicted from the hidden state of the first round (paper Section 4.2).

An ensemble of survival MLPs: two layers of 256, GELU, dropout, one hazard logit per future round.
The ensemble *averages survival curves*, which is the mixture of the members' distributions: its
mean is the mean of their means, and its probabilities are the average of their probabilities.
Averaging hazards instead would mean drawing a new member every round; the average hazard of those
still running belongs to the members that expected long durations, which plain averaging ignores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from dwise_predict.predictors.calibration import CalibrationMap
from dwise_predict.predictors.distribution import RemainingRounds
from dwise_predict.predictors.limits import INPUT_LIMIT
from dwise_predict.predictors.network import MemberMLP
from dwise_predict.predictors.survival import survival_from_logits

SCALAR_LIMIT = 3.0
"""Standardised prompt length and budget are clamped here: far outside training, more is unknown."""


@dataclass(frozen=True)
class Normalisation:
    """Standardises the inputs: hidden mean, log1p(prompt tokens), log1p(budget tokens).

    Args:
        centre: float32 ``[hidden + 2]``, training means.
        scale: float32 ``[hidden + 2]``, 1 / training standard deviation, and 0 for an input that
            was constant in training: it taught nothing, so it must not speak later.
    """

    centre: Tensor
    scale: Tensor

    @classmethod
    def fit(
        cls,
        hidden: NDArray[np.float32],
        prompt_tokens: NDArray[np.int64],
        budget_tokens: NDArray[np.int64],
    ) -> Normalisation:
        """Measure the training requests: ``[n, hidden]``, ``[n]``, ``[n]``."""
        inputs = _inputs(
            torch.from_numpy(hidden),
            torch.from_numpy(prompt_tokens),
            torch.from_numpy(budget_tokens),
        ).double()
        deviation, centre = torch.std_mean(inputs, dim=0, correction=0)
        varies = deviation > 1e-5 * (1 + centre.abs())
        scale = torch.where(varies, 1 / deviation.where(varies, torch.ones(())), 0.0)
        return cls(centre.float(), scale.float())

    def apply(self, hidden: Tensor, prompt_tokens: Tensor, budget_tokens: Tensor) -> Tensor:
        """Return standardised inputs, float32 ``[n, hidden + 2]``; finite inputs give finite ones.

        Hidden means are clamped to +-``INPUT_LIMIT``, token counts to +-``SCALAR_LIMIT``.
        """
        z = (_inputs(hidden, prompt_tokens, budget_tokens) - self.centre) * self.scale
        hidden_z = z[:, :-2].clamp(-INPUT_LIMIT, INPUT_LIMIT)
        return torch.cat([hidden_z, z[:, -2:].clamp(-SCALAR_LIMIT, SCALAR_LIMIT)], dim=1)


class Refiner:
    """Predicts the distribution of the rounds that remain after the first denoising round.

    Args:
        network: the members, in evaluation form.
        normalisation: of their inputs.
        calibration: map from expectation to typical rounds, see
            :class:`~dwise_predict.predictors.distribution.RemainingRounds`.
    """

    def __init__(
        self,
        network: MemberMLP,
        normalisation: Normalisation,
        calibration: CalibrationMap | None = None,
    ) -> None:
        self.network = network
        self.normalisation = normalisation
        self.calibration = calibration

    @classmethod
    def from_tensors(
        cls,
        tensors: Mapping[str, NDArray[np.float32]],
        layers: int,
        calibration: CalibrationMap | None,
    ) -> Refiner:
        """Rebuild what :meth:`tensors` wrote; shapes must be checked before (see the bundle)."""
        loaded = {name: torch.from_numpy(np.array(value)) for name, value in tensors.items()}
        weights = [loaded[f"layer{i}_weight"] for i in range(layers + 1)]
        sizes = [*(w.shape[1] for w in weights), weights[-1].shape[2]]
        network = MemberMLP(weights[0].shape[0], sizes, generators=None)
        network.load_state_dict({k: v for k, v in loaded.items() if k.startswith("layer")})
        return cls(network, Normalisation(loaded["centre"], loaded["scale"]), calibration)

    def tensors(self) -> dict[str, NDArray[np.float32]]:
        """Everything but the calibration knots, as float32 arrays by name."""
        named = {name: p.detach() for name, p in self.network.named_parameters()}
        named |= {"centre": self.normalisation.centre, "scale": self.normalisation.scale}
        return {name: tensor.cpu().numpy().astype(np.float32) for name, tensor in named.items()}

    @property
    def members(self) -> int:
        """Networks in the ensemble."""
        return self.network.members

    @property
    def hidden_size(self) -> int:
        """Width of the hidden means it expects."""
        return self.normalisation.centre.shape[0] - 2

    @property
    def horizon(self) -> int:
        """K, the largest duration that is modelled round by round."""
        return self.network.last_bias.shape[-1]

    def to(self, device: str | torch.device) -> Refiner:
        """Return a refiner on another device."""
        normalisation = Normalisation(
            self.normalisation.centre.to(device), self.normalisation.scale.to(device)
        )
        return Refiner(self.network.to(device), normalisation, self.calibration)

    @torch.no_grad()
    def __call__(
        self,
        hidden_mean: Tensor | NDArray[np.floating],
        prompt_tokens: Tensor | ArrayLike,
        budget_tokens: Tensor | ArrayLike,
    ) -> RemainingRounds:
        """Predict ``n`` requests on the refiner's device, without synchronising it.

        Args:
            hidden_mean: mean over the block's positions of the final normed hidden state in the
                first denoising round, any float type, ``[n, hidden]``.
            prompt_tokens: tokens after the chat template, ``[n]``.
            budget_tokens: output budget, ``[n]``.

        Raises:
            ValueError: shapes do not fit together or not this refiner.
        """
        device = self.normalisation.centre.device
        hidden = _tensor(hidden_mean, device)
        prompt = _tensor(prompt_tokens, device)
        budget = _tensor(budget_tokens, device)
        if hidden.ndim != 2 or hidden.shape[1] != self.hidden_size:
            raise ValueError(f"hidden_mean must be [n, {self.hidden_size}], not {hidden.shape}")
        if prompt.shape != (len(hidden),) or budget.shape != (len(hidden),):
            raise ValueError(
                f"prompt_tokens and budget_tokens must be [{len(hidden)}], not "
                f"{prompt.shape} and {budget.shape}"
            )
        logits = self.network(self.normalisation.apply(hidden, prompt, budget))
        return RemainingRounds(survival_from_logits(logits).mean(0), self.calibration)

    def calibrated(self, calibration: CalibrationMap | None) -> Refiner:
        """Return the same networks with another calibration map."""
        return Refiner(self.network, self.normalisation, calibration)


def _tensor(values: Tensor | ArrayLike, device: torch.device) -> Tensor:
    if isinstance(values, np.ndarray) and not values.flags.writeable:
        # Columns of Arrow tables are read-only, which torch warns about.
        values = values.copy()
    return torch.as_tensor(values, device=device)


def _inputs(hidden: Tensor, prompt_tokens: Tensor, budget_tokens: Tensor) -> Tensor:
    scalars = torch.stack([prompt_tokens, budget_tokens], dim=1).float().log1p()
    return torch.cat([hidden.float(), scalars], dim=1)
