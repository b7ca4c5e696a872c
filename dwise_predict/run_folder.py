"""Where the files of one training run lie."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


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

    def repeat(self, number: int) -> Path:
        """The profile folder of a further serving of the same requests; ``number`` from 2."""
        return self.path / "repeats" / str(number)

    @property
    def repeats(self) -> list[Path]:
        """Finished profiles of further servings, in their order."""
        found: list[Path] = []
        while (self.repeat(len(found) + 2) / "run.json").is_file():
            found.append(self.repeat(len(found) + 2))
        return found

    @property
    def mixed(self) -> Path:
        """The profile folder of the same requests under mixed batching."""
        return self.path / "mixed"

    @property
    def stability(self) -> Path:
        """How far these profiles agree (JSON); only where there are several."""
        return self.path / "stability.json"

    @property
    def predictions(self) -> Path:
        """True and predicted rounds of the evaluation requests (parquet)."""
        return self.path / "predictions.parquet"

    @property
    def bundle(self) -> Path:
        """The bundle folder."""
        return self.path / "bundle"

    @property
    def refresh(self) -> Path:
        """What refreshing a bundle changed (JSON); only where one was refreshed."""
        return self.path / "refresh.json"

    @property
    def report(self) -> Path:
        """The HTML report."""
        return self.path / "report.html"

    @property
    def started(self) -> bool:
        """Whether there is anything but a recipe and a workload, which a run writes first."""
        cheap = {self.recipe.name, self.workload.name}
        return self.path.is_dir() and any(
            entry.name not in cheap and entry.suffix != ".tmp" for entry in self.path.iterdir()
        )

    @property
    def is_run(self) -> bool:
        """Whether a run began here: its recipe and its workload are there."""
        # Unlike Path.is_file, False where the folder may not be looked into.
        return os.path.isfile(self.recipe) and os.path.isfile(self.workload)

    @property
    def profiled(self) -> bool:
        """Whether the profile is complete."""
        return (self.profile / "run.json").is_file()

    @property
    def trained(self) -> bool:
        """Whether bundle and predictions are complete; the predictions are written last."""
        return self.predictions.is_file() and (self.bundle / "config.json").is_file()


def is_made_again(folder: Path) -> bool:
    """Whether ``folder`` is the profile or bundle of a run, which ``--resume`` makes again."""
    run = RunFolder(folder.parent)
    if folder.parent.name == "repeats":
        return folder.name.isdecimal() and RunFolder(run.path.parent).is_run
    return folder in (run.profile, run.mixed, run.bundle) and run.is_run
