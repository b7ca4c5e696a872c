"""LTR: learning to rank by output length, with OPT and a listwise loss.

Fu et al., "Efficient LLM Scheduling by Learning to Rank", 2024 (arXiv:2408.15792), and their code
(vllm-ltr, ``train/trainer.py``): a linear score on the last token's state of OPT-125M, trained with
ListMLE (Xia et al., "Listwise Approach to Learning to Rank", ICML 2008), each batch one list in
which shorter answers are to rank higher. Not here: the paper's guard against starvation, which
raises requests that waited long; our policies have a bound of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from dwise_predict.baselines.encoder import TextEncoder, load_encoder
from dwise_predict.baselines.lengths import FloatArray, LengthExamples
from dwise_predict.baselines.settings import LtrSettings
from dwise_predict.baselines.tuning import seeded, tune
from dwise_predict.progress import Advance


class Ltr:
    """Scores prompts; the order of scores is that of predicted output lengths, and their unit none.

    Args:
        settings: of encoder and loss.
        encoder: evaluates.
        head: from [n, encoder width] to scores [n, 1], larger for shorter answers.
    """

    def __init__(self, settings: LtrSettings, encoder: TextEncoder, head: nn.Module) -> None:
        self.settings = settings
        self.encoder = encoder
        self.head = head

    @torch.no_grad()
    def admission(self, texts: Sequence[str]) -> FloatArray:
        """Scores of n prompts, float64 [n], smaller for shorter answers as schedulers want them."""
        scores: FloatArray = -self.head(self.encoder.features(texts)).squeeze(1).double().numpy()
        return scores

    def policy_options(self) -> dict[str, object]:
        """Options of the policy ``ltr`` that belong to this predictor: none."""
        return {}


def ltr_head(width: int) -> nn.Linear:
    """The score after an encoder of ``width``, freshly drawn."""
    return nn.Linear(width, 1, bias=False)


def train_ltr(examples: LengthExamples, settings: LtrSettings, seed: int, advance: Advance) -> Ltr:
    """Train on ``examples``; ``advance`` is told one unit in all.

    Raises BaselineError when the encoder cannot be had.
    """
    encoder = load_encoder(settings.encoder)
    relevance = -(torch.from_numpy(examples.output_tokens) // settings.group_tokens)
    with seeded(seed):
        head = ltr_head(encoder.width)
        tune(
            encoder,
            head,
            examples.texts,
            lambda outputs, rows: list_mle(outputs.squeeze(1), relevance[rows]),
            settings.tuning,
            advance,
        )
    return Ltr(settings, encoder, head)


def list_mle(scores: Tensor, relevance: Tensor) -> Tensor:
    """Negative log likelihood of the order of ``relevance`` under a Plackett-Luce model of scores.

    Items are drawn one after another, each with probability proportional to exp(score) among those
    left; the loss is that of drawing the most relevant first. Equal relevance is put in random
    order, drawn from torch's generator, as in the authors' code.

    Args:
        scores: float [n].
        relevance: [n], larger is to be drawn earlier.

    Returns:
        The sum over the list, a scalar.
    """
    shuffled = torch.randperm(len(scores))
    order = shuffled[relevance[shuffled].argsort(descending=True, stable=True)]
    drawn = scores[order]
    left = drawn.flip(0).logcumsumexp(0).flip(0)
    return (left - drawn).sum()
