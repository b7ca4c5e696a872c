"""Schema of a bundle's config.json and provenance.json."""

from __future__ import annotations

import hashlib
import itertools
import json
from datetime import datetime
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from dwise_predict.fingerprint import Fingerprint
from dwise_predict.predictors.features import FEATURES
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
FORMAT_VERSION: Final = "1.0"
CONFIG_FILE = "config.json"
ADMISSION_FILE = "admission.txt"
REFINER_FILE = "refiner.safetensors"
METRICS_FILE = "metrics.json"
PROVENANCE_FILE = "provenance.json"
README_FILE = "README.md"
FILES = (ADMISSION_FILE, REFINER_FILE, METRICS_FILE, PROVENANCE_FILE, README_FILE)
"""Every file but config.json, which holds their hashes."""


class _Record(BaseModel):
    # "model" is a field of fingerprints, hence no protected names.
    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=()
    )


class FileEntry(_Record):
    """A file as it was written."""

    bytes: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class AdmissionShape(_Record):
    """The admission predictor in admission.txt (LightGBM text)."""

    features: tuple[str, ...] = Field(default=FEATURES, description="Column order.")
    target: Literal["log_rounds"] = Field(
        default="log_rounds", description="exp() of the output is on the median scale."
    )
    trees: int = Field(gt=0, le=MAX_TREES)
    leaves: int = Field(gt=0, le=MAX_LEAVES, description="Most leaves of any tree.")


class RefinerShape(_Record):
    """The networks in refiner.safetensors, and the meaning of inputs and outputs."""

    hidden_size: int = Field(gt=0, le=1_000_000)
    members: int = Field(gt=0, le=MAX_MEMBERS)
    width: int = Field(gt=0, le=MAX_WIDTH)
    layers: int = Field(gt=0, le=MAX_LAYERS)
    horizon: int = Field(gt=0, le=1_000_000, description="K, hazard logits per request.")
    duration: Duration = Field(description="What ended a request; see the refiner's settings.")
    ensemble: Literal["mean_survival"] = "mean_survival"

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

    inputs: Literal["hidden_mean, prompt_tokens, budget_tokens"] = (
        "hidden_mean, prompt_tokens, budget_tokens"
    )
    counts: Literal["log1p"] = Field(default="log1p", description="Transform of token counts.")
    count_limit: float = Field(gt=0, description="Standardised counts are clamped to +- this.")


class CalibrationKnots(_Record):
    """Monotone map from expected to typical remaining rounds."""

    raw: tuple[float, ...] = Field(min_length=2, max_length=10_000)
    calibrated: tuple[float, ...] = Field(min_length=2, max_length=10_000)


class BundleConfig(_Record):
    """config.json."""

    format: Literal["dwise-bundle"] = FORMAT
    format_version: Literal["1.0"] = FORMAT_VERSION
    library_version: str
    fingerprint: Fingerprint
    settings: PredictorSettings
    seed: int = Field(ge=0)
    admission: AdmissionShape
    refiner: RefinerShape
    normalisation: Normalisation
    calibration: CalibrationKnots | None = Field(
        description="None with duration budget_free: estimates are expectations."
    )
    files: dict[str, FileEntry] = Field(description="Every other file of the bundle.")
    digest: str = Field(
        default="", description="SHA-256 of this content as canonical JSON, digest left out."
    )

    def content_digest(self) -> str:
        """Hash of the canonical JSON (sorted keys, no spaces) of everything but the digest."""
        content = self.model_dump(mode="json", exclude={"digest"})
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


class Seconds(_Record):
    """Wall time of the stages."""

    profile: float | None
    train: float
    evaluate: float


class Provenance(_Record):
    """provenance.json: how the bundle came about. Nothing in it changes a prediction."""

    command: str = Field(description="As typed, paths reduced to their last component.")
    created_at: datetime
    seed: int
    python: str
    platform: str = Field(description="Operating system and processor kind.")
    packages: dict[str, str] = Field(description="Versions.")
    git_revision: str | None = Field(description="Of the library, when run from its repository.")
    profile_sha256: str = Field(description="Over the hashes of the profile's files.")
    workload: str
    workload_sha256: str
    seconds: Seconds
