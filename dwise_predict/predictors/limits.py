"""Limits within which the refiner gives finite estimates for every finite input.

Whoever writes a bundle can write any finite number into it. These checks bound what the refiner can
compute from them, whatever hidden means it is given; trained predictors are far inside. They need
no torch.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

INPUT_LIMIT = 1e4
"""Standardised hidden means are clamped to +- this: more only comes of damage."""
CENTRE_LIMIT = 1e6
"""Largest absolute mean of an input."""
SCALE_LIMITS = (1e-6, 1e6)
"""Least and largest scale of an input that is used; 0 leaves it out."""
ACTIVATION_LIMIT = 1e32
"""Most that a layer may be able to put out: sums over a million rounds stay finite in float32."""
KNOT_LIMIT = 1e7
"""Largest knot of a calibration map, in rounds."""
LEAST_STEP = 1e-6
"""Least step between expectations of a calibration map, relative: float32 tells them apart."""


def check_tensors(tensors: Mapping[str, NDArray[np.float32]], layers: int) -> None:
    """Check the tensors of a refiner with ``layers`` hidden layers; all are finite.

    Raises:
        ValueError: naming the tensor, and what its numbers must be.
    """
    least, most = SCALE_LIMITS
    scale = tensors["scale"]
    if ((scale != 0) & ((scale < least) | (scale > most))).any():
        raise ValueError(f"tensor scale must hold 0 or numbers from {least:g} to {most:g}")
    if (np.abs(tensors["centre"]) > CENTRE_LIMIT).any():
        raise ValueError(f"tensor centre must hold numbers of at most +-{CENTRE_LIMIT:g}")
    reached = np.full(len(tensors["layer0_weight"]), INPUT_LIMIT)
    for i in range(layers + 1):
        weight, bias = tensors[f"layer{i}_weight"], tensors[f"layer{i}_bias"]
        # One member at a time: a copy of all weights may take gigabytes. GELU only shrinks.
        gains = [np.abs(member).sum(0, dtype=np.float64).max() for member in weight]
        reached = reached * gains + np.abs(bias).max((1, 2)).astype(np.float64)
        if (reached > ACTIVATION_LIMIT).any():
            raise ValueError(
                f"tensors layer{i}_weight and layer{i}_bias are too large: the layer could put "
                f"out {reached.max():.2g}, at most {ACTIVATION_LIMIT:g} is allowed"
            )


def check_knots(raw: Sequence[float], calibrated: Sequence[float]) -> None:
    """Check the knots of a calibration map.

    Raises:
        ValueError: saying what they must be.
    """
    if len(raw) != len(calibrated) or len(raw) < 2:
        raise ValueError("calibration knots must be two at least, as many raw as calibrated")
    if raw[0] != 1 or calibrated[0] != 1:
        raise ValueError("the first calibration knot must be (1, 1)")
    for values in (raw, calibrated):
        if not all(a < b <= KNOT_LIMIT for a, b in itertools.pairwise(values)):
            raise ValueError(
                f"calibration knots must increase from 1 to at most {KNOT_LIMIT:g} rounds"
            )
    if not all(distinct(a, b) for a, b in itertools.pairwise(raw)):
        raise ValueError(
            f"raw calibration knots must increase by a factor of {1 + LEAST_STEP:.7g} at least"
        )


def distinct(before: float, after: float) -> bool:
    """Whether two expectations are far enough apart for knots of their own."""
    return after >= before * (1 + LEAST_STEP)
