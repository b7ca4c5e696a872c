"""Offline arithmetic on one thread: the same numbers whatever the number of cores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Run what is inside, or a function decorated with it, on one of torch's threads.

    Products as small as the refiner's gain nothing from more threads and lose much when cores are
    busy. How many threads share a sum also decides the order it is taken in, and so the last
    digits of weights and metrics; nothing that is written to a file may depend on that.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
