"""Processes for replays, which end with the one that started them."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from concurrent.futures import ProcessPoolExecutor

_PR_SET_PDEATHSIG = 1


def worker_pool(processes: int) -> ProcessPoolExecutor:
    """A pool whose workers do not outlive this process, even when it is killed (on Linux)."""
    return ProcessPoolExecutor(processes, initializer=_end_with, initargs=(os.getpid(),))


def _end_with(parent: int) -> None:
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it was gone before the kernel was told
        os._exit(1)
