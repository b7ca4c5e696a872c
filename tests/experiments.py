"""Pieces of work that other processes can import."""

from __future__ import annotations

import os
import time
from pathlib import Path

from dwise_predict.experiments.settings import Settings
from dwise_predict.experiments.work import Stage, Work, run_all
from dwise_predict.progress import SILENT
from dwise_predict.recipe import load_recipe

LOG = "log.txt"


def settings(out: Path, workers: int = 2, seeds: int = 1) -> Settings:
    return Settings("torch", load_recipe("tiny"), seeds, out, workers)


def note(settings: Settings, place: str) -> None:
    """Leave the file ``place``, and one line that says so."""
    (settings.out / place).write_text(str(os.getpid()))
    with (settings.out / LOG).open("a") as log:
        log.write(f"{place}\n")


def note_slowly(settings: Settings, place: str) -> None:
    time.sleep(0.3)
    note(settings, place)


def fail(settings: Settings, place: str) -> None:
    raise ValueError(f"no {place} today")


def die(settings: Settings, place: str) -> None:
    os._exit(1)


def wait(settings: Settings, place: str) -> None:
    note(settings, place)
    time.sleep(600)


def work_and_leave(out: Path, name: str) -> None:
    """Do one piece of work and end as the command line does, without Python's own cleaning up."""
    function = {"fail": fail, "die": die, "wait": wait}[name]
    try:
        run_all([Work(Stage.BASE, "place", function, ("place",))], settings(out), SILENT)
    except BaseException as error:
        print(type(error).__name__, flush=True)
    os._exit(0)
