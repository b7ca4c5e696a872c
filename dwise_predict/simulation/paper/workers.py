"""Processes for replays, which end with the one that started them."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

_PR_SET_PDEATHSIG = 1


def worker_pool(processes: int, fresh: bool = False) -> ProcessPoolExecutor:
    """A pool whose workers do not outlive this process, even when it is killed (on Linux).

    ``fresh`` workers are new interpreters instead of copies of this process, which must not be
    copied any more once torch has threads in it. They leave interrupts to this process.
    """
    context = get_context("spawn") if fresh else None
    return ProcessPoolExecutor(processes, context, _end_with, (os.getpid(), fresh))


def _end_with(parent: int, deaf: bool) -> None:
    if deaf:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it was gone before the kernel was told
        os._exit(1)
