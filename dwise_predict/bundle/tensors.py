"""refiner.safetensors checked against the shapes of config.json before it is loaded."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json
from safetensors import SafetensorError
from safetensors.numpy import load, save

from dwise_predict.errors import BundleError

_MAX_HEADER_BYTES = 2**20


def tensor_bytes(tensors: Mapping[str, NDArray[np.float32]]) -> bytes:
    """Tensors as the bytes of a safetensors file; the same tensors give the same bytes."""
    return save({name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()})


def read_tensors(
    content: bytes, shapes: Mapping[str, tuple[int, ...]], source: str
) -> dict[str, NDArray[np.float32]]:
    """Load exactly the float32 tensors of ``shapes``, all finite.

    Raises:
        BundleError: the file holds something else; ``source`` names it.
    """
    found = _header(content, source)
    expected = {name: ("F32", list(shape)) for name, shape in shapes.items()}
    if found != expected:
        wrong = sorted(
            name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name)
        )
        raise BundleError(
            f"{source}: tensors {', '.join(wrong)} differ in name, shape or type from config.json"
        )
    try:
        tensors: dict[str, NDArray[np.float32]] = load(content)
    except SafetensorError as error:
        raise BundleError(f"{source} is no safetensors file: {error}") from error
    for name, tensor in tensors.items():
        if not np.isfinite(tensor).all():
            raise BundleError(f"{source}: tensor {name} holds numbers that are not finite")
    return tensors


def _header(content: bytes, source: str) -> dict[str, tuple[str, list[int]]]:
    """Type and shape of every tensor, from the JSON that starts a safetensors file."""
    length = int.from_bytes(content[:8], "little")
    if not 0 < length <= min(_MAX_HEADER_BYTES, len(content) - 8):
        raise BundleError(f"{source} is no safetensors file: its header length is wrong")
    try:
        header = from_json(content[8 : 8 + length])
        return {name: (str(info["dtype"]), list(info["shape"])) for name, info in header.items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BundleError(f"{source} is no safetensors file: its header is malformed") from error
