"""Pieces of work that are done once, by several processes, and kept when the rest is killed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from enum import IntEnum
from multiprocessing import active_children

from dwise_predict.errors import ExperimentError
from dwise_predict.experiments.settings import Settings
from dwise_predict.progress import Progress
from dwise_predict.simulation.paper.workers import worker_pool


class Stage(IntEnum):
    """Work of a later stage reads what earlier ones made."""

    BASE = 0
    RECORDED = 1
    TRAINED = 2
    SERVED = 3
    ALONE = 4
    """Measures with the whole machine to itself: one piece at a time."""


@dataclass(frozen=True, slots=True)
class Work:
    """Something that ends with a file or folder.

    Attributes:
        stage: when.
        place: path under :attr:`Settings.out` that is there, complete, once it is done.
        function: called with the settings and ``arguments``; of a module, so that other processes
            find it.
        arguments: small values.
        parts: paths of what was there, too, once it was done: whoever deletes one has it made
            again.
    """

    stage: Stage
    place: str
    function: Callable[..., None]
    arguments: tuple[object, ...] = ()
    parts: tuple[str, ...] = ()

    def done(self, settings: Settings) -> bool:
        """Whether nothing is left to do."""
        return all((settings.out / place).exists() for place in (self.place, *self.parts))

    def run(self, settings: Settings) -> None:
        """Do it."""
        self.function(settings, *self.arguments)


def run_all(work: Iterable[Work], settings: Settings, progress: Progress) -> None:
    """Do what is not done yet, stage by stage, with ``settings.workers`` processes.

    The first error ends it; what is finished stays. Raises ExperimentError when a process is
    killed.
    """
    wanted = {piece.place: piece for piece in work}
    left = [piece for piece in wanted.values() if not piece.done(settings)]
    with progress.task("experiments", len(wanted)) as advance:
        advance(len(wanted) - len(left))
        for stage in Stage:
            pieces = [piece for piece in left if piece.stage is stage]
            if pieces:
                workers = 1 if stage is Stage.ALONE else min(settings.workers, len(pieces))
                _run_stage(pieces, settings, workers, lambda: advance(1))


def _run_stage(
    pieces: Sequence[Work], settings: Settings, workers: int, on_done: Callable[[], None]
) -> None:
    others = set(active_children())
    pool = worker_pool(workers, fresh=True)
    try:
        for future in as_completed([pool.submit(_in_worker, piece, settings) for piece in pieces]):
            future.result()
            on_done()
    except BrokenProcessPool as error:
        raise ExperimentError(
            "a process was killed from outside, most likely for the memory it took: run again with "
            "fewer --processes, nothing finished is lost"
        ) from error
    except BaseException:
        # What is in work is begun anew anyhow: nobody has to wait for it.
        for worker in set(active_children()) - others:
            worker.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _in_worker(piece: Work, settings: Settings) -> None:
    import torch

    # As many processes as cores: more threads would wait for each other.
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    piece.run(settings)
