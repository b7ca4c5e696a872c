"""Discrete-time survival analysis in rounds: pure functions over tensors.

**Time.** A request's duration is the number of denoising rounds that remain after its first one:
``duration = rounds - 1``. Bin ``k`` (1-based, column ``k - 1``) means "ends in the k-th of them".

**Duration 0.** A request that its first round finished is never refined, because nothing of it
remains when the hidden state is known. Predictors therefore model durations *given that at least
one round remains*, and such requests take no part in fitting.

**Hazard** ``h_k = P(duration = k | duration >= k)``, **survival** ``S(k) = P(duration > k)``.
What survives horizon K is counted as ending in round K + 1, the first one not modelled.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import softplus

from dwise_predict.predictors.errors import TrainingError


@dataclass(frozen=True)
class LabelTransform:
    """Turns durations in rounds into bins ``1..horizon``; rounds are discrete, so bins are rounds.

    Tells a network how many outputs it needs, as pycox's label transforms do.
    """

    horizon: int

    @classmethod
    def fit(cls, durations: NDArray[np.int64]) -> LabelTransform:
        """Take the largest duration, ``[n]`` and at least 1, as horizon.

        Raises:
            TrainingError: there is no positive duration.
        """
        horizon = int(durations.max(initial=0))
        if horizon < 1:
            raise TrainingError("every training request ended in its first denoising round")
        return cls(horizon)

    def transform(
        self, durations: NDArray[np.int64], events: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Cut at the horizon: a longer duration becomes one censored there. Shapes ``[n]``."""
        return np.minimum(durations, self.horizon), events & (durations <= self.horizon)


def nll_logistic_hazard(logits: Tensor, durations: Tensor, events: Tensor) -> Tensor:
    r"""Right-censored negative log-likelihood of each request.

    With hazards :math:`h = \sigma(\phi)`, an event in bin d has likelihood
    :math:`h_d \prod_{k<d} (1 - h_k)` and a request censored after bin d
    :math:`\prod_{k \le d} (1 - h_k)`; because :math:`-\log(1-h) = softplus(\phi)` and
    :math:`-\log h = softplus(\phi) - \phi`, both are
    :math:`\sum_{k \le d} softplus(\phi_k) - event \cdot \phi_d`.
    Kvamme & Borgan 2021, "Continuous and discrete-time survival prediction with neural networks".

    Args:
        logits: hazard logits, float ``[..., n, K]``.
        durations: bins, int64 ``[..., n]``, between 1 and K.
        events: True where the request ended in that bin, False where it was censored after it.

    Returns:
        float ``[..., n]``.
    """
    bins = torch.arange(1, logits.shape[-1] + 1, device=logits.device)
    at_risk = bins <= durations.unsqueeze(-1)
    at_end = logits.gather(-1, durations.unsqueeze(-1) - 1).squeeze(-1)
    return (softplus(logits) * at_risk).sum(-1) - at_end * events


def survival_from_logits(logits: Tensor) -> Tensor:
    """Hazard logits ``[..., K]`` to survival ``[..., K + 1]``: S(0) = 1, S(1), ..., S(K)."""
    later = torch.exp(-softplus(logits).cumsum(-1))
    return torch.cat([torch.ones_like(later[..., :1]), later], dim=-1)


def pmf_from_survival(survival: Tensor) -> Tensor:
    """Survival ``[..., K + 1]`` to P(duration = k) for k = 1..K + 1, ``[..., K + 1]``.

    The last column is S(K), the mass beyond the horizon; every row sums to 1.
    """
    return torch.cat([survival[..., :-1] - survival[..., 1:], survival[..., -1:]], dim=-1)


def kaplan_meier_logits(
    durations: NDArray[np.int64],
    events: NDArray[np.bool_],
    horizon: int,
    prior_requests: float = 10.0,
) -> NDArray[np.float64]:
    """Hazard logits of the population, ``[horizon]``: where a network starts before it sees inputs.

    Kaplan-Meier hazards, shrunk towards the constant hazard of the whole sample as if
    ``prior_requests`` more requests had been at risk in each round, so that rounds in which nobody
    ended keep a finite logit.
    """
    bins = np.arange(1, horizon + 1)
    at_risk = (durations[:, None] >= bins).sum(0).astype(np.float64)
    ended = np.bincount(durations[events], minlength=horizon + 1)[1 : horizon + 1]
    constant = (ended.sum() + 0.5) / (at_risk.sum() + 1.0)
    hazard = (ended + prior_requests * constant) / (at_risk + prior_requests)
    logits: NDArray[np.float64] = np.log(hazard) - np.log1p(-hazard)
    return logits


def hazard_basis(horizon: int, knots: int) -> NDArray[np.float32]:
    """Hat functions over rounds, ``[at most knots, horizon]``; every column sums to 1.

    Weights on them draw hazard logits that are piecewise linear in log(round): neighbouring rounds
    share evidence, the more so the later they are and the fewer requests reach them.
    """
    positions = np.unique(np.round(np.geomspace(1, horizon, knots)))
    rounds = np.log(np.arange(1, horizon + 1))
    hats = [np.interp(rounds, np.log(positions), hat) for hat in np.eye(len(positions))]
    return np.stack(hats).astype(np.float32)
