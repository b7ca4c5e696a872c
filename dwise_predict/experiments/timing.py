"""How long one call takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

Argument = TypeVar("Argument")

TIMED = 200
"""Calls that are enough for a median."""


def median_ms(call: Callable[[Argument], object], arguments: Sequence[Argument]) -> float:
    """Median time of ``call`` over ``arguments``, in ms; what is done once is not counted."""
    call(arguments[0])
    spent = []
    for argument in arguments:
        started = time.perf_counter()
        call(argument)
        spent.append(time.perf_counter() - started)
    return 1e3 * float(np.median(spent))
