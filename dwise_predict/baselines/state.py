"""What a trained baseline consists of, apart from the pretrained weights it started from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor, nn

from dwise_predict.baselines.encoder import TextEncoder
from dwise_predict.errors import BaselineError

_ENCODER, _HEAD = "encoder.", "head."


@dataclass(frozen=True)
class State:
    """Tensors and numbers that training made.

    ``encoder_sha256`` is the digest of what the encoder kept (:meth:`TextEncoder.frozen_sha256`).
    """

    tensors: Mapping[str, Tensor]
    numbers: Mapping[str, float] = field(default_factory=dict)
    encoder_sha256: str = ""


def state_of(encoder: TextEncoder, head: nn.Module, numbers: Mapping[str, float]) -> State:
    """State of a method that is an encoder and a head."""
    tensors = {_ENCODER + name: tensor.detach() for name, tensor in encoder.moving().items()}
    tensors |= {_HEAD + name: tensor.detach() for name, tensor in head.state_dict().items()}
    return State(tensors, numbers, encoder.frozen_sha256())


def restore(state: State, encoder: TextEncoder, head: nn.Module) -> None:
    """Put a state into a pretrained encoder and a fresh head.

    Raises BaselineError when the encoder is another than was trained, or tensors do not fit.
    """
    if encoder.frozen_sha256() != state.encoder_sha256:
        raise BaselineError(
            f"the encoder {encoder.settings.model!r} is not the one that the baseline was trained "
            "with: its weights or its tokenizer differ. Get that revision, or train again"
        )
    expected = {_ENCODER + name: tensor for name, tensor in encoder.moving().items()}
    expected |= {_HEAD + name: tensor for name, tensor in head.state_dict().items()}
    check_tensors(state.tensors, expected)
    encoder.load_moving(within(state.tensors, _ENCODER))
    load_module(head, within(state.tensors, _HEAD))
    encoder.eval()


def load_module(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Put tensors that were checked into a module, which then evaluates."""
    module.load_state_dict(dict(tensors))
    module.eval()


def check_tensors(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """Raise BaselineError unless names and shapes are those expected."""
    wrong = sorted(
        name
        for name in found.keys() | expected.keys()
        if name not in found or name not in expected or found[name].shape != expected[name].shape
    )
    if wrong:
        raise BaselineError(
            f"the weights do not fit the settings: {', '.join(wrong[:3])} "
            "missing, unknown or of another shape; delete the folder and train it again"
        )


def prefixed(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The same tensors under longer names."""
    return {prefix + name: tensor for name, tensor in tensors.items()}


def within(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin with ``prefix``, without it."""
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
