"""SSJF: speculative shortest job first, by a BERT regression of the output length.

Qiu et al., "Efficient Interactive LLM Serving with Proxy Model-based Sequence Length Prediction",
2024 (arXiv:2404.08509), and their code (LLM-serving-with-proxy-models, ``latency_prediction.py``):
the [CLS] state goes through two ReLU layers of 128 to one number; encoder and head are trained for
three epochs, the head alone for three more. Ours, for small training sets: output tokens are
standardised, which changes neither order nor optimum but lets small learning rates arrive.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn.functional import l1_loss, mse_loss

from dwise_predict.baselines.encoder import TextEncoder, load_encoder
from dwise_predict.baselines.lengths import FloatArray, LengthExamples
from dwise_predict.baselines.settings import SsjfSettings
from dwise_predict.baselines.tuning import fit_head, seeded, tune
from dwise_predict.progress import Advance


class Ssjf:
    """Predicts output tokens from the prompt.

    Args:
        settings: of encoder and head.
        encoder: evaluates.
        head: from [n, encoder width] to standardised tokens [n, 1].
        mean: of output tokens in training.
        deviation: their standard deviation.
    """

    def __init__(
        self,
        settings: SsjfSettings,
        encoder: TextEncoder,
        head: nn.Module,
        mean: float,
        deviation: float,
    ) -> None:
        self.settings = settings
        self.encoder = encoder
        self.head = head
        self.mean, self.deviation = mean, deviation

    @torch.no_grad()
    def admission(self, texts: Sequence[str]) -> FloatArray:
        """Predicted output tokens of n prompts, float64 [n]."""
        standardised = self.head(self.encoder.features(texts)).squeeze(1).double().numpy()
        predicted: FloatArray = self.mean + self.deviation * standardised
        return predicted

    def policy_options(self) -> dict[str, object]:
        """Options of the policy ``ssjf`` that belong to this predictor: none."""
        return {}


def ssjf_head(settings: SsjfSettings, width: int) -> nn.Sequential:
    """The network after an encoder of ``width``, freshly drawn."""
    return nn.Sequential(
        nn.Linear(width, settings.width),
        nn.ReLU(),
        nn.Linear(settings.width, settings.width),
        nn.ReLU(),
        nn.Linear(settings.width, 1),
    )


def train_ssjf(
    examples: LengthExamples, settings: SsjfSettings, seed: int, advance: Advance
) -> Ssjf:
    """Train on ``examples``; ``advance`` is told two units in all.

    Raises BaselineError when the encoder cannot be had.
    """
    encoder = load_encoder(settings.encoder)
    tokens = torch.from_numpy(examples.output_tokens).float()
    mean, deviation = float(tokens.mean()), float(tokens.std().clamp_min(1e-6))
    targets = ((tokens - mean) / deviation).unsqueeze(1)
    distance = mse_loss if settings.loss == "mse" else l1_loss

    def loss(outputs: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return distance(outputs, targets[rows])

    with seeded(seed):
        head = ssjf_head(settings, encoder.width)
        tune(encoder, head, examples.texts, loss, settings.tuning, advance)
        fit_head(head, encoder.features(examples.texts), loss, settings.head, advance)
    return Ssjf(settings, encoder, head, mean, deviation)
