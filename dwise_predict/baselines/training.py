"""From a profile and its prompts to a folder of trained baselines."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from dwise_predict.baselines.buckets import BucketClassifier, train_buckets
from dwise_predict.baselines.collection import Baselines
from dwise_predict.baselines.lengths import LengthExamples, training_lengths
from dwise_predict.baselines.ltr import train_ltr
from dwise_predict.baselines.rounds import RecordedRounds, record_rounds
from dwise_predict.baselines.s3 import S3
from dwise_predict.baselines.settings import METHODS, OFFLINE, BaselineSettings, Method
from dwise_predict.baselines.ssjf import train_ssjf
from dwise_predict.baselines.store import (
    Baseline,
    Origin,
    read_baseline,
    read_config,
    write_baseline,
)
from dwise_predict.baselines.trail import train_trail
from dwise_predict.errors import BaselineError
from dwise_predict.files import locked, make_folder
from dwise_predict.profile import Profile, read_profile
from dwise_predict.progress import SILENT, Advance, Progress
from dwise_predict.recipe import load_recipe
from dwise_predict.run_folder import RunFolder
from dwise_predict.validation import unknown_name
from dwise_predict.workload.jsonl import read_jsonl
from dwise_predict.workload.schema import Request

ROUNDS_FOLDER, BASELINES_FOLDER = "round_states", "baselines"
"""Where :func:`train_run_baselines` puts recorded rounds and trained baselines in a run folder."""


def train_run_baselines(
    run: Path,
    settings: BaselineSettings = OFFLINE,
    seed: int | None = None,
    methods: Sequence[Method] = METHODS,
    progress: Progress = SILENT,
) -> Baselines:
    """Train on the profile of a run folder, with its prompts, into its folder ``baselines``.

    For TRAIL the workload is first served once more (``round_states``), which takes as long as the
    profile did. What an earlier call finished is kept. Arguments and errors otherwise as
    :func:`train_baselines`.
    """
    folder = RunFolder(run)
    profile, requests = read_profile(folder.profile), read_jsonl(folder.workload)
    rounds = None
    if "trail" in methods:
        recipe = load_recipe(str(folder.recipe.resolve()))
        rounds = record_rounds(profile, requests, recipe, run / ROUNDS_FOLDER, progress)
    out = run / BASELINES_FOLDER
    return train_baselines(profile, requests, out, settings, seed, methods, rounds, progress)


def train_baselines(
    profile: Profile,
    requests: Sequence[Request],
    out: Path,
    settings: BaselineSettings = OFFLINE,
    seed: int | None = None,
    methods: Sequence[Method] = METHODS,
    rounds: RecordedRounds | None = None,
    progress: Progress = SILENT,
) -> Baselines:
    """Train baselines on the output tokens of the profile's train split, one folder each.

    The same profile, settings and seed give the same bytes on the same machine with as many
    threads. A method that an earlier call finished is loaded instead.

    Args:
        profile: finished, FCFS: the one that DWISE trains on.
        requests: the workload that was profiled: profiles hold no prompts.
        out: folder of the baselines.
        settings: :data:`OFFLINE` or :data:`PAPER`, or your own.
        seed: of every random choice; None: the profile's.
        methods: which to train.
        rounds: recorded rounds (:func:`record_rounds`), which TRAIL needs.
        progress: told about each method.

    Returns:
        The baselines, as :meth:`Baselines.load` would load them from ``out``.

    Raises:
        BaselineError: a method does not exist, encoder, prompts or rounds are missing, or ``out``
            holds baselines of another training.
    """
    for method in methods:
        if method not in METHODS:
            raise BaselineError(unknown_name("baseline", method, METHODS))
        if (out / method).is_file():
            raise BaselineError(f"{out / method} is a file; a baseline is a folder: choose another")
    examples = training_lengths(profile, requests)
    seed = profile.run.seed if seed is None else seed
    origin = Origin(
        fingerprint=profile.run.fingerprint,
        profile_sha256=profile.run.files["requests.parquet"],
        workload_sha256=profile.run.workload.sha256,
        requests=len(examples),
        seed=seed,
    )
    if "trail" in methods and rounds is None:
        raise BaselineError(
            "TRAIL learns from the hidden states of every round: give recorded rounds "
            "(record_rounds), or leave it out"
        )
    make_folder(out)
    with locked(out, BaselineError(f"another process is writing {out}; wait for it")):
        trainer = _Trainer(examples, settings, origin, rounds, out)
        for method in methods:
            folder = out / method
            if folder.is_dir():
                if not _is_same(folder, origin, settings, method):
                    raise BaselineError(
                        f"{folder} holds a baseline of another training (profile, settings or seed "
                        "differ); choose another folder, or delete it"
                    )
                continue
            with progress.task(f"baseline {method}", 2) as advance:
                write_baseline(folder, method, trainer.train(method, advance), origin)
    return Baselines.load(out, methods)


class _Trainer:
    """Trains one method after another; TRAIL takes S³'s classifier where it is the same."""

    def __init__(
        self,
        examples: LengthExamples,
        settings: BaselineSettings,
        origin: Origin,
        rounds: RecordedRounds | None,
        out: Path,
    ) -> None:
        self.examples, self.settings, self.origin = examples, settings, origin
        self.rounds, self.out = rounds, out

    def train(self, method: Method, advance: Advance) -> Baseline:
        """Train ``method``; ``advance`` is told two units in all."""
        seed = seed_of(self.origin.seed, "s3" if method == "trail" else method)
        settings = self.settings
        if method == "ssjf":
            return train_ssjf(self.examples, settings.ssjf, seed, advance)

        def twice(steps: float) -> None:
            advance(2 * steps)

        if method == "ltr":
            return train_ltr(self.examples, settings.ltr, seed, twice)
        if method == "s3":
            return S3(train_buckets(self.examples, settings.s3, seed, twice))
        assert self.rounds is not None
        initial = self._initial(seed, advance)
        return train_trail(
            self.examples,
            self.rounds,
            initial,
            settings.trail,
            seed_of(self.origin.seed, "trail"),
            advance,
        )

    def _initial(self, seed: int, advance: Advance) -> BucketClassifier:
        """Equal settings and seed make S³'s classifier the one that would be trained here."""
        done, settings = self.out / "s3", self.settings
        same = settings.trail.initial == settings.s3 and done.is_dir()
        if same and _is_same(done, self.origin, settings, "s3"):
            trained = read_baseline(done)
            assert isinstance(trained, S3)
            advance(1)
            return trained.classifier
        return train_buckets(self.examples, settings.trail.initial, seed, advance)


def seed_of(seed: int, method: str) -> int:
    """A seed of its own for every method."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{method}".encode()).digest()[:6], "big")


def _is_same(folder: Path, origin: Origin, settings: BaselineSettings, method: Method) -> bool:
    """Whether ``folder`` holds what training ``method`` again would give."""
    config = read_config(folder)
    return (config.method, config.origin, config.settings) == (
        method,
        origin,
        getattr(settings, method),
    )
