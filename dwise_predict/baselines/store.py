"""Trained baselines on disk: one folder a method with ``config.json`` and ``weights.safetensors``.

Weights are what training changed; the pretrained encoder that they start from is loaded from where
it came and must be the same, byte by byte. No pickle.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from dwise_predict.baselines.buckets import BucketClassifier, Buckets, bucket_head
from dwise_predict.baselines.encoder import load_encoder
from dwise_predict.baselines.ltr import Ltr, ltr_head
from dwise_predict.baselines.s3 import S3
from dwise_predict.baselines.settings import (
    BucketSettings,
    LtrSettings,
    Method,
    SsjfSettings,
    TrailSettings,
)
from dwise_predict.baselines.ssjf import Ssjf, ssjf_head
from dwise_predict.baselines.state import (
    State,
    check_tensors,
    load_module,
    prefixed,
    restore,
    state_of,
    within,
)
from dwise_predict.baselines.trail import Trail, trail_network
from dwise_predict.errors import BaselineError
from dwise_predict.files import write_folder
from dwise_predict.fingerprint import Fingerprint
from dwise_predict.validation import describe

Baseline = Ssjf | S3 | Ltr | Trail

CONFIG, WEIGHTS = "config.json", "weights.safetensors"
_AGAIN = "delete the folder and train it again"
_INITIAL, _NETWORK = "initial.", "network."
_MAX_BYTES = 8 * 2**30


class Origin(BaseModel):
    """What a baseline was trained on; the same origin and settings give the same weights."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    fingerprint: Fingerprint
    profile_sha256: str = Field(description="Of the profile's requests.parquet.")
    workload_sha256: str
    requests: int = Field(gt=0, description="That were trained on.")
    seed: int


class Config(BaseModel):
    """config.json."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    format: Literal["dwise-baseline"] = "dwise-baseline"
    format_version: Literal[1] = 1
    method: Method
    settings: SsjfSettings | BucketSettings | LtrSettings | TrailSettings = Field(
        union_mode="left_to_right"
    )
    origin: Origin
    numbers: dict[str, float]
    encoder_sha256: str
    weights_sha256: str


def write_baseline(folder: Path, method: Method, baseline: Baseline, origin: Origin) -> None:
    """Write a new folder in one step."""
    state, settings = _state(baseline), _settings(baseline)
    weights = save({name: tensor.contiguous() for name, tensor in state.tensors.items()})
    config = Config(
        method=method,
        settings=settings,
        origin=origin,
        numbers=dict(state.numbers),
        encoder_sha256=state.encoder_sha256,
        weights_sha256=hashlib.sha256(weights).hexdigest(),
    )
    text = config.model_dump_json(indent=2).encode() + b"\n"
    write_folder(folder, {CONFIG: text, WEIGHTS: weights})


def read_config(folder: Path) -> Config:
    """Raises BaselineError when there is none or it is damaged."""
    path = folder / CONFIG
    try:
        return Config.model_validate_json(path.read_bytes())
    except OSError as error:
        raise BaselineError(f"{folder} is no trained baseline: {error.strerror}") from error
    except ValidationError as error:
        raise BaselineError(
            f"{path} is damaged or of another version ({describe(error, Config, 'key')}); {_AGAIN}"
        ) from error


def read_baseline(folder: Path) -> Baseline:
    """Load a trained baseline and the encoder that it starts from.

    Raises BaselineError when files are missing or damaged, or the encoder is not to be had or
    another one.
    """
    config = read_config(folder)
    tensors = _read_weights(folder / WEIGHTS, config.weights_sha256)
    state = State(tensors, config.numbers, config.encoder_sha256)
    try:
        return _baseline(config, state)
    except KeyError as error:
        raise BaselineError(f"{folder / CONFIG} lacks the number {error}; {_AGAIN}") from error


def _read_weights(path: Path, sha256: str) -> dict[str, Tensor]:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise BaselineError(f"{path} is larger than any baseline's weights; {_AGAIN}")
        content = path.read_bytes()
    except OSError as error:
        raise BaselineError(f"cannot read {path}: {error.strerror}; {_AGAIN}") from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise BaselineError(f"{path} is corrupted (its SHA-256 changed); {_AGAIN}")
    try:
        tensors = load(content)
    except SafetensorError as error:
        raise BaselineError(f"{path} is no safetensors file: {error}") from error
    if any(t.dtype != torch.float32 or not torch.isfinite(t).all() for t in tensors.values()):
        raise BaselineError(f"{path} holds numbers that are not finite float32; {_AGAIN}")
    return tensors


def _settings(
    baseline: Baseline,
) -> SsjfSettings | BucketSettings | LtrSettings | TrailSettings:
    return baseline.classifier.settings if isinstance(baseline, S3) else baseline.settings


def _state(baseline: Baseline) -> State:
    if isinstance(baseline, Ssjf):
        numbers = {"mean": baseline.mean, "deviation": baseline.deviation}
        return state_of(baseline.encoder, baseline.head, numbers)
    if isinstance(baseline, Ltr):
        return state_of(baseline.encoder, baseline.head, {})
    if isinstance(baseline, S3):
        return _classifier_state(baseline.classifier)
    initial = _classifier_state(baseline.initial)
    own = {name: tensor.detach() for name, tensor in baseline.network.state_dict().items()}
    return State(
        prefixed(initial.tensors, _INITIAL) | prefixed(own, _NETWORK),
        {**initial.numbers, "tokens_per_round": baseline.tokens_per_round},
        initial.encoder_sha256,
    )


def _classifier_state(classifier: BucketClassifier) -> State:
    return state_of(classifier.encoder, classifier.head, {"limit": classifier.buckets.limit})


def _baseline(config: Config, state: State) -> Baseline:
    settings, numbers = config.settings, state.numbers
    if config.method == "ssjf" and isinstance(settings, SsjfSettings):
        encoder = load_encoder(settings.encoder)
        head = ssjf_head(settings, encoder.width)
        restore(state, encoder, head)
        return Ssjf(settings, encoder, head, numbers["mean"], numbers["deviation"])
    if config.method == "ltr" and isinstance(settings, LtrSettings):
        encoder = load_encoder(settings.encoder)
        score = ltr_head(encoder.width)
        restore(state, encoder, score)
        return Ltr(settings, encoder, score)
    if config.method == "s3" and isinstance(settings, BucketSettings):
        return S3(_classifier(settings, state))
    if config.method == "trail" and isinstance(settings, TrailSettings):
        return _trail(settings, config.origin.fingerprint.hidden_size, state)
    raise BaselineError(f"the settings are not those of {config.method}; {_AGAIN}")


def _classifier(settings: BucketSettings, state: State) -> BucketClassifier:
    encoder = load_encoder(settings.encoder)
    head = bucket_head(settings, encoder.width)
    restore(state, encoder, head)
    buckets = Buckets(settings.buckets, int(state.numbers["limit"]))
    return BucketClassifier(settings, encoder, head, buckets)


def _trail(settings: TrailSettings, hidden: int, state: State) -> Trail:
    first = State(within(state.tensors, _INITIAL), state.numbers, state.encoder_sha256)
    initial = _classifier(settings.initial, first)
    network = trail_network(settings, hidden)
    own = within(state.tensors, _NETWORK)
    check_tensors(own, network.state_dict())
    load_module(network, own)
    bins = Buckets(settings.bins, initial.buckets.limit)
    return Trail(settings, initial, network, bins, state.numbers["tokens_per_round"])
