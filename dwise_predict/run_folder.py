"""Where the files of one training run lie, and who may write them."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dwise_predict.errors import RunError

_LOCK = ".lock"


@dataclass(frozen=True)
class RunFolder:
    """Paths of a run: each stage reads the files of earlier ones and writes its own."""

    path: Path

    @property
    def recipe(self) -> Path:
        """The resolved recipe (YAML)."""
        return self.path / "recipe.yaml"

    @property
    def workload(self) -> Path:
        """Every request with its split (JSON lines)."""
        return self.path / "workload.jsonl"

    @property
    def profile(self) -> Path:
        """The profile folder."""
        return self.path / "profile"

    @property
    def predictions(self) -> Path:
        """True and predicted rounds of the evaluation requests (parquet)."""
        return self.path / "predictions.parquet"

    @property
    def bundle(self) -> Path:
        """The bundle folder."""
        return self.path / "bundle"

    @property
    def report(self) -> Path:
        """The HTML report."""
        return self.path / "report.html"

    @property
    def started(self) -> bool:
        """Whether there is anything but a recipe and a workload, which cost nothing to redo."""
        cheap = {self.recipe.name, self.workload.name, _LOCK}
        return self.path.is_dir() and any(
            entry.name not in cheap and entry.suffix != ".tmp" for entry in self.path.iterdir()
        )

    @property
    def profiled(self) -> bool:
        """Whether the profile is complete."""
        return (self.profile / "run.json").is_file()

    @property
    def trained(self) -> bool:
        """Whether bundle and predictions are complete; the predictions are written last."""
        return self.predictions.is_file() and (self.bundle / "config.json").is_file()


@contextmanager
def locked(folder: RunFolder) -> Iterator[None]:
    """Keep other processes from writing this run meanwhile; the lock ends with the process."""
    with (folder.path / _LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RunError(
                f"another process is writing {folder.path}; wait for it or choose another --out"
            ) from error
        yield
