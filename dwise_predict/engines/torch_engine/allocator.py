"""Keeps the C allocator from giving memory back between forward passes."""

from __future__ import annotations

import ctypes
import sys

_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4
_NEVER_TRIM = -1


def keep_freed_memory() -> bool:
    """Make glibc reuse freed memory instead of returning it to the kernel.

    By default glibc serves every tensor above 128 KiB from a fresh ``mmap``, so that each
    forward pass faults in all of its pages again. Where page faults are slow (virtual machines)
    that costs more than the arithmetic (``benchmarks/bench_rounds.py`` measures it). The
    setting holds for the whole process and cannot be undone; its price is that peak memory is
    kept. Returns whether it was applied: False where the C library has no ``mallopt``.
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    # mallopt returns 1 on success.
    return bool(mallopt(_M_MMAP_MAX, 0)) and bool(mallopt(_M_TRIM_THRESHOLD, _NEVER_TRIM))
