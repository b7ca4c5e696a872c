"""Typed recipe of one model: what to serve, how it decodes, which workload, which predictors."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelSettings(_Section):
    """The target model."""

    repo: str = Field(description="Hub repository, a checkpoint folder, or builtin:tiny.")
    revision: str | None = Field(default=None, description="Commit to pin; None: newest.")
    architecture: str = Field(description="First entry of architectures in config.json.")


class EngineSettings(_Section):
    """How the model is served while it is profiled."""

    name: Literal["torch", "sglang"] = "torch"
    slots: int = Field(default=32, gt=0, description="Requests per round (B in the paper).")
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    device: str = Field(default="auto", description="auto, cpu, cuda or cuda:N.")
    threads: int | None = Field(default=None, gt=0, description="CPU threads; None: all cores.")


class DecodingSettings(_Section):
    """The decoding algorithm whose rounds are labelled."""

    algorithm: Literal["LowConfidence", "JointThreshold"] = "LowConfidence"
    parameters: dict[str, float] = Field(default_factory=dict, description="e.g. threshold: 0.9")
    block_size: int = Field(gt=0)
    fdfo: bool = True
    budget_tokens: int = Field(default=256, gt=0, description="Output budget of a request.")


class WorkloadSettings(_Section):
    """Which prompts are profiled."""

    name: Literal["builtin", "jsonl"] = "builtin"
    path: str | None = Field(default=None, description="JSONL file when name is jsonl.")
    train: int = Field(default=1024, ge=0, description="Training requests (builtin).")
    eval: int = Field(default=512, ge=0, description="Evaluation requests (builtin).")
    eval_fraction: float = Field(
        default=0.33, ge=0, lt=1, description="Share held out of a JSONL workload, by prompt."
    )


class ProfileSettings(_Section):
    """How the profile is written."""

    shard_requests: int = Field(
        default=256, gt=0, description="Requests served from an empty engine; the unit of resume."
    )


class AdmissionSettings(_Section):
    """LightGBM regressor on prompt features (paper Section 4.2, Appendix 9)."""

    trees: int = Field(default=100, gt=0)
    leaves: int = Field(default=15, gt=1, description="At most this many leaves per tree.")
    learning_rate: float = Field(default=0.1, gt=0)
    min_leaf: int = Field(default=20, gt=0, description="Fewest training requests in a leaf.")


class RefinerSettings(_Section):
    """Discrete-time survival MLPs on first-round hidden means (paper Section 4.2)."""

    width: int = Field(default=256, gt=0)
    layers: int = Field(default=2, gt=0)
    dropout: float = Field(default=0.2, ge=0, lt=1)
    members: int = Field(default=3, gt=0, description="Networks averaged, one seed each.")
    epochs: int = Field(default=100, gt=0, description="At most; early stopping ends sooner.")
    patience: int = Field(default=10, gt=0, description="Epochs without improvement.")
    batch_size: int = Field(default=128, gt=0)
    learning_rate: float = Field(default=1e-3, gt=0)
    weight_decay: float = Field(default=1e-2, ge=0)
    stop_fraction: float = Field(default=0.1, gt=0, lt=1, description="Held out for stopping.")
    calibration_folds: int = Field(
        default=4, gt=1, description="Folds whose out-of-fold means fit the isotonic map."
    )
    duration: Literal["completion", "budget_free"] = Field(
        default="completion",
        description="completion: hitting the budget ends a request (the paper's target); "
        "budget_free: it censors the duration.",
    )


class PredictorSettings(_Section):
    """Both predictors."""

    admission: AdmissionSettings = AdmissionSettings()
    refiner: RefinerSettings = RefinerSettings()


class Recipe(_Section):
    """Everything ``dwise train`` needs, as one value."""

    name: str
    model: ModelSettings
    engine: EngineSettings = EngineSettings()
    decoding: DecodingSettings
    workload: WorkloadSettings = WorkloadSettings()
    profile: ProfileSettings = ProfileSettings()
    predictors: PredictorSettings = PredictorSettings()
    seed: int = Field(default=0, ge=0)
