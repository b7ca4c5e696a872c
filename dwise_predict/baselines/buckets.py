"""Classification of prompts by the bucket that their output length falls into.

Both S³ and TRAIL fine-tune DistilBERT to say in which of ten ranges of equal width the output
length lies. S³ allocates for the upper end of the likeliest, TRAIL takes the mean over them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from dwise_predict.baselines.encoder import TextEncoder, load_encoder
from dwise_predict.baselines.lengths import FloatArray, LengthExamples
from dwise_predict.baselines.settings import BucketSettings
from dwise_predict.baselines.tuning import seeded, tune
from dwise_predict.progress import Advance


class Buckets:
    """``count`` ranges of equal width over 0..``limit`` tokens: (0, w], (w, 2w], …; 0 is in the
    first, and what is longer than ``limit`` in the last."""

    def __init__(self, count: int, limit: int) -> None:
        self.count, self.limit = count, limit
        self.width = limit / count

    def index(self, tokens: Tensor) -> Tensor:
        """Bucket of each number of tokens, int64 [n]."""
        edges = torch.arange(1, self.count, dtype=torch.float64) * self.width
        return torch.bucketize(tokens.double(), edges)

    @property
    def upper(self) -> Tensor:
        """Upper ends, float64 [count]."""
        return torch.arange(1, self.count + 1, dtype=torch.float64) * self.width

    @property
    def middle(self) -> Tensor:
        """Midpoints, float64 [count]."""
        return self.upper - self.width / 2


class BucketClassifier:
    """Probabilities of output-length buckets from the prompt.

    Args:
        settings: of encoder and head.
        encoder: evaluates.
        head: from [n, encoder width] to logits [n, buckets].
        buckets: their ranges.
    """

    def __init__(
        self, settings: BucketSettings, encoder: TextEncoder, head: nn.Module, buckets: Buckets
    ) -> None:
        self.settings = settings
        self.encoder = encoder
        self.head = head
        self.buckets = buckets

    @torch.no_grad()
    def probabilities(self, texts: Sequence[str]) -> Tensor:
        """Of n prompts, float64 [n, buckets]."""
        logits: Tensor = self.head(self.encoder.features(texts))
        return logits.double().softmax(1)

    def allocated(self, texts: Sequence[str]) -> FloatArray:
        """Upper end in tokens of the likeliest bucket, float64 [n]."""
        likeliest = self.probabilities(texts).argmax(1)
        upper: FloatArray = self.buckets.upper[likeliest].numpy()
        return upper

    def expected(self, texts: Sequence[str]) -> FloatArray:
        """Mean over the midpoints of the buckets, in tokens, float64 [n]."""
        mean: FloatArray = (self.probabilities(texts) @ self.buckets.middle).numpy()
        return mean


def bucket_head(settings: BucketSettings, width: int) -> nn.Sequential:
    """DistilBERT's own classification head after an encoder of ``width``, freshly drawn."""
    return nn.Sequential(
        nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.2), nn.Linear(width, settings.buckets)
    )


def train_buckets(
    examples: LengthExamples, settings: BucketSettings, seed: int, advance: Advance
) -> BucketClassifier:
    """Train on ``examples``; ``advance`` is told one unit in all.

    Raises BaselineError when the encoder cannot be had.
    """
    encoder = load_encoder(settings.encoder)
    buckets = Buckets(settings.buckets, int(examples.budget_tokens.max()))
    labels = buckets.index(torch.from_numpy(examples.output_tokens))
    with seeded(seed):
        head = bucket_head(settings, encoder.width)
        tune(
            encoder,
            head,
            examples.texts,
            lambda outputs, rows: cross_entropy(outputs, labels[rows]),
            settings.tuning,
            advance,
        )
    return BucketClassifier(settings, encoder, head, buckets)
