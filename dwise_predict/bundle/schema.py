"""Schema of a bundle's config.json, provenance.json and smoke.json.

The descriptions here are the reference of ``docs/bundle-format.md`` and go into the JSON Schema.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from dwise_predict.fingerprint import Fingerprint
from dwise_predict.predictors.features import SIZES
from dwise_predict.recipe import (
    MAX_LAYERS,
    MAX_LEAVES,
    MAX_MEMBERS,
    MAX_TREES,
    MAX_WIDTH,
    Duration,
    PredictorSettings,
)

FORMAT: Final = "dwise-bundle"
MAJOR: Final = 1
MINOR: Final = 3
FORMAT_VERSION: Final = f"{MAJOR}.{MINOR}"
CONFIG_FILE = "config.json"
ADMISSION_FILE = "admission.txt"
REFINER_FILE = "refiner.safetensors"
METRICS_FILE = "metrics.json"
PROVENANCE_FILE = "provenance.json"
SMOKE_FILE = "smoke.json"
README_FILE = "README.md"
FILES_1_0 = (ADMISSION_FILE, REFINER_FILE, METRICS_FILE, PROVENANCE_FILE, README_FILE)
"""Every file but config.json of format 1.0."""
FILES = (*FILES_1_0, SMOKE_FILE)
"""Every file but config.json, which holds their hashes."""


class _Record(BaseModel):
    # "model" is a field of fingerprints, hence no protected names.
    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=()
    )


class FileEntry(_Record):
    """A file as it was written."""

    bytes: int = Field(ge=0, description="Size.")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 as hex.")


class AdmissionShape(_Record):
    """The admission predictor in admission.txt (LightGBM text)."""

    features: tuple[str, ...] = Field(
        default=SIZES,
        description="In column order: words, newlines, prompt_tokens and, since 1.2 and where "
        "trained so, token_counts_1024.",
    )
    target: Literal["log_rounds"] = Field(
        default="log_rounds", description="exp() of the output is on the median scale."
    )
    trees: int = Field(gt=0, le=MAX_TREES, description="Trees in admission.txt, exactly.")
    leaves: int = Field(gt=0, le=MAX_LEAVES, description="Most leaves of any tree.")


class RefinerShape(_Record):
    """The networks in refiner.safetensors, and the meaning of inputs and outputs."""

    hidden_size: int = Field(
        gt=0, le=1_000_000, description="Width of the first-round hidden mean."
    )
    members: int = Field(gt=0, le=MAX_MEMBERS, description="Networks in the ensemble.")
    width: int = Field(gt=0, le=MAX_WIDTH, description="Units of a hidden layer.")
    layers: int = Field(gt=0, le=MAX_LAYERS, description="Hidden layers.")
    horizon: int = Field(gt=0, le=1_000_000, description="K, hazard logits per request.")
    duration: Duration = Field(
        description="What ended a request: completion (its answer or its budget ended) or "
        "budget_free (reaching the budget censored it)."
    )
    ensemble: Literal["mean_survival"] = Field(
        default="mean_survival", description="Survival curves of the members are averaged."
    )

    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every tensor of the file; all are float32."""
        inputs = self.hidden_size + 2
        sizes = [inputs, *[self.width] * self.layers, self.horizon]
        shapes: dict[str, tuple[int, ...]] = {"centre": (inputs,), "scale": (inputs,)}
        for i, (fan_in, fan_out) in enumerate(itertools.pairwise(sizes)):
            shapes[f"layer{i}_weight"] = (self.members, fan_in, fan_out)
            shapes[f"layer{i}_bias"] = (self.members, 1, fan_out)
        return shapes


class Normalisation(_Record):
    """How refiner inputs are standardised; centre and scale are tensors in refiner.safetensors."""

    inputs: Literal["hidden_mean, prompt_tokens, budget_tokens"] = Field(
        default="hidden_mean, prompt_tokens, budget_tokens",
        description="Order of the input columns; the token counts are the last two.",
    )
    counts: Literal["log1p"] = Field(default="log1p", description="Transform of token counts.")
    count_limit: float = Field(gt=0, description="Standardised counts are clamped to +- this.")


class CalibrationKnots(_Record):
    """Monotone map from expected to typical remaining rounds, linear between knots."""

    raw: tuple[float, ...] = Field(
        min_length=2, max_length=10_000, description="Expected rounds, increasing from 1."
    )
    calibrated: tuple[float, ...] = Field(
        min_length=2, max_length=10_000, description="Typical rounds there, increasing from 1."
    )


class BundleConfig(_Record):
    """config.json."""

    format: Literal["dwise-bundle"] = Field(default=FORMAT, description="Says what this is.")
    format_version: str = Field(
        default=FORMAT_VERSION,
        pattern=rf"^{MAJOR}\.(0|[1-9][0-9]{{0,3}})$",
        description="MAJOR.MINOR; see versions.",
    )
    library_version: str = Field(description="Version of dwise-predict that wrote the bundle.")
    fingerprint: Fingerprint = Field(description="What the predictors are valid for.")
    settings: PredictorSettings = Field(description="How they were trained, as in a recipe.")
    seed: int = Field(ge=0, description="Seed of the training.")
    admission: AdmissionShape = Field(description="Shape of the admission predictor.")
    refiner: RefinerShape = Field(description="Shape of the refinement predictor.")
    normalisation: Normalisation = Field(description="Standardisation of refiner inputs.")
    calibration: CalibrationKnots | None = Field(
        description="None with duration budget_free: estimates are expectations."
    )
    files: dict[str, FileEntry] = Field(description="Every other file of the bundle.")
    digest: str = Field(
        default="", description="SHA-256 of this content as canonical JSON, digest left out."
    )

    def sealed(self, files: Mapping[str, FileEntry]) -> BundleConfig:
        """Return the configuration of a bundle with these files, digest included."""
        config = self.model_copy(update={"files": dict(files)})
        content = config.model_dump(mode="json")
        return config.model_copy(update={"digest": content_digest(content)})

    def to_bytes(self) -> bytes:
        """The one way in which config.json of this content is written."""
        return config_bytes(self.model_dump(mode="json"))


def config_bytes(content: Mapping[str, Any]) -> bytes:
    """JSON with one space of indentation, keys in the order of ``content``."""
    return (json.dumps(content, indent=1) + "\n").encode()


def content_digest(content: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON (sorted keys, no spaces) of everything but the digest.

    ``content`` is decoded JSON, with the keys of later minor versions where there are any.
    """
    rest = {key: value for key, value in content.items() if key != "digest"}
    canonical = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


class Seconds(_Record):
    """Wall time of the stages."""

    profile: float | None = Field(description="Time in rounds while profiling; None: unknown.")
    train: float = Field(description="Training of both predictors.")
    evaluate: float = Field(description="Evaluation, held-out categories included.")


class Parent(_Record):
    """The bundle that a refreshed one was made from."""

    source: str = Field(
        description="ORG/NAME@commit, a name of the zoo, or the last part of a folder."
    )
    digest: str = Field(description="The digest in its config.json.")
    refresh: Literal["weights", "calibration"] = Field(
        description="weights: both predictors were trained further; calibration: only the "
        "calibration map and the scale of admission estimates were fitted again."
    )
    trained_on: tuple[str, ...] = Field(
        description="profile_sha256 of every profile that it and its own parents were fitted on."
    )


class Provenance(_Record):
    """provenance.json: how the bundle came about. Nothing in it changes a prediction."""

    command: str = Field(description="As typed, paths reduced to their last component.")
    created_at: datetime = Field(description="End of the training, UTC.")
    seed: int = Field(description="Seed of the training.")
    python: str = Field(description="Version of Python.")
    platform: str = Field(description="Operating system and processor kind.")
    packages: dict[str, str] = Field(description="Versions.")
    git_revision: str | None = Field(description="Of the library, when run from its repository.")
    profile_sha256: str = Field(description="Over the hashes of the profile's files.")
    profile_repo: str | None = Field(
        default=None, description="ORG/NAME@commit of a published profile; since 1.1."
    )
    workload: str = Field(description="Name of the workload.")
    workload_sha256: str = Field(description="Hash of its prompts, their order and budgets.")
    datasets: tuple[str, ...] = Field(
        default=(), description="Where the prompts come from, as the workload says; since 1.1."
    )
    repeats: int = Field(
        default=1,
        gt=0,
        description="Profiles of the same requests that labels were taken from; since 1.3.",
    )
    parent: Parent | None = Field(
        default=None, description="The bundle it was refreshed from, if any; since 1.3."
    )
    seconds: Seconds = Field(description="Wall time of the stages.")


class SmokePrediction(_Record):
    """smoke.json: eight fixed requests and what this bundle predicted for them when it was made.

    Lists hold one number per request, rounded to six significant digits. Inputs of the refiner
    follow from the bundle's own normalisation; see :mod:`dwise_predict.bundle.smoke`.
    """

    words: tuple[int, ...] = Field(description="Admission input.")
    newlines: tuple[int, ...] = Field(description="Admission input.")
    prompt_tokens: tuple[int, ...] = Field(description="Input of both predictors.")
    budget_tokens: tuple[int, ...] = Field(description="Refiner input.")
    admission: tuple[float, ...] = Field(description="Predicted total rounds.")
    mean: tuple[float, ...] = Field(description="Calibrated remaining rounds.")
    mean_raw: tuple[float, ...] = Field(description="Expected remaining rounds.")
    mean_residual: tuple[float, ...] = Field(
        description="Calibrated remaining rounds after 5 more rounds."
    )
