"""Typed recipe of one model: what to serve, how it decodes, which workload, which predictors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from dwise_predict.errors import RecipeError
from dwise_predict.validation import describe, shortened, unknown_name

# Limits on predictors, shared with the schema of bundles: what a recipe may ask for can be saved.
MAX_TREES = 10_000
MAX_LEAVES = 4_096
MAX_MEMBERS = 64
MAX_WIDTH = 65_536
MAX_LAYERS = 16

_RECIPES = Path(__file__).parent / "recipes"
_COMMIT = re.compile(r"[0-9a-f]{40}")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_booleans_as_numbers(cls, value: object, info: ValidationInfo) -> object:
        field = cls.model_fields[info.field_name or ""]
        if isinstance(value, bool) and field.annotation is not bool:
            raise ValueError("should be a number or text, not a boolean")
        return value

    @field_validator("*")
    @classmethod
    def _refuse_null_characters(cls, value: object) -> object:
        if isinstance(value, str) and "\0" in value:
            raise ValueError("should be text without a NUL character")
        return value


class ModelSettings(_Section):
    """The target model."""

    repo: str = Field(description="Hub repository, a checkpoint folder, or builtin:tiny.")
    revision: str | None = Field(
        default=None, description="Commit to pin; None or a branch: whatever is newest there."
    )
    architecture: str = Field(description="First entry of architectures in config.json.")
    hidden_size: int | None = Field(
        default=None, gt=0, description="Width of hidden states; only to estimate disk space."
    )
    weights_gb: float | None = Field(
        default=None, gt=0, description="Size of the weights in 10^9 bytes; only to estimate."
    )
    trust_remote_code: bool = Field(
        default=False, description="Let transformers and SGLang run code of the repository."
    )

    @property
    def pinned(self) -> bool:
        """Whether the revision is a commit, which cannot move."""
        return self.revision is not None and _COMMIT.fullmatch(self.revision) is not None


class SglangSettings(_Section):
    """How SGLang is started."""

    min_version: str = Field(
        default="0.5.20",
        pattern=r"^\d+\.\d+\.\d+$",
        description="Oldest SGLang that serves the model.",
    )
    tp_size: int = Field(default=1, gt=0, le=1_024, description="GPUs that share every layer.")
    ep_size: int = Field(
        default=1,
        gt=0,
        le=1_024,
        description="GPUs among which experts are spread; divides tp_size.",
    )
    attention_backend: str | None = Field(default=None, description="None: SGLang's choice.")
    kv_pool_gib: float | None = Field(
        default=None, gt=0, description="KV cache of one server in 2^30 bytes, over all its GPUs."
    )
    kv_kib_per_token: float | None = Field(
        default=None,
        gt=0,
        description="KV cache of a token in 2^10 bytes, all layers: turns kv_pool_gib into tokens.",
    )
    mem_fraction_static: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="Share of GPU memory for weights and KV cache; None: SGLang's choice.",
    )
    config_overrides: dict[str, int | float | str] = Field(
        default_factory=dict,
        description="What to set in the checkpoint's config.json (--json-model-override-args).",
    )
    port: int = Field(default=30_000, ge=1_024, le=65_535, description="Port of the server.")

    @property
    def max_total_tokens(self) -> int | None:
        """Tokens that the KV cache holds, when size and cost of a token are known."""
        if self.kv_pool_gib is None or self.kv_kib_per_token is None:
            return None
        return int(self.kv_pool_gib * 2**20 / self.kv_kib_per_token)

    @model_validator(mode="after")
    def _experts_divide_ranks(self) -> SglangSettings:
        if self.tp_size % self.ep_size:
            raise ValueError(
                f"engine.sglang.ep_size is {self.ep_size} and tp_size {self.tp_size}: the first "
                "must divide the second"
            )
        return self


class EngineSettings(_Section):
    """How the model is served while it is profiled."""

    name: Literal["torch", "sglang"] = Field(
        default="torch", description="torch: built in, for SDAR checkpoints; sglang: all models."
    )
    slots: int = Field(
        default=32, gt=0, le=65_536, description="Requests per round (B in the paper)."
    )
    dtype: Literal["float32", "bfloat16", "float16"] = Field(
        default="float32", description="Of weights and activations."
    )
    device: str = Field(default="auto", description="auto, cpu, cuda or cuda:N.")
    threads: int | None = Field(
        default=None, gt=0, le=1_024, description="CPU threads; None: all cores."
    )
    sglang: SglangSettings | None = Field(
        default=None, description="When name is sglang; left out, its defaults hold."
    )

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, raw: Any) -> Any:
        if isinstance(raw, dict) and raw.get("name") == "sglang" and raw.get("sglang") is None:
            return {**raw, "sglang": {}}
        return raw


AlgorithmName = Literal["LowConfidence", "JointThreshold", "JointThresholdInDel", "Gemma4Renoise"]


class DecodingSettings(_Section):
    """The decoding algorithm whose rounds are labelled."""

    algorithm: AlgorithmName = Field(
        default="LowConfidence",
        description="As SGLang calls it; the built-in engine has the first two.",
    )
    parameters: dict[str, float] = Field(default_factory=dict, description="e.g. threshold: 0.9")
    block_size: int = Field(gt=0, le=4_096, description="Tokens of a block; the model's own.")
    fdfo: bool = Field(default=True, description="First done, first out: blocks leave one by one.")
    budget_tokens: int = Field(
        default=256, gt=0, le=1_000_000, description="Output budget of a request."
    )


class WorkloadSettings(_Section):
    """Which prompts are profiled."""

    name: Literal["builtin", "jsonl", "paper"] = Field(
        default="builtin",
        description="builtin: generated; paper: the paper's data sets; jsonl: own prompts.",
    )
    path: str | None = Field(default=None, description="JSONL file when name is jsonl.")
    train: int = Field(
        default=1024, ge=0, le=1_000_000, description="Training requests (not of jsonl)."
    )
    eval: int = Field(
        default=512, ge=0, le=1_000_000, description="Evaluation requests (not of jsonl)."
    )
    skip_missing: bool = Field(
        default=False, description="Go on without data sets that cannot be had (paper)."
    )
    eval_fraction: float = Field(
        default=0.33, gt=0, lt=1, description="Share held out of a JSONL workload, by prompt."
    )

    @model_validator(mode="after")
    def _path_belongs_to_jsonl(self) -> WorkloadSettings:
        if (self.name == "jsonl") != (self.path is not None):
            raise ValueError("workload.path is the file of workload.name=jsonl: set both or none")
        return self


class ProfileSettings(_Section):
    """How the profile is written."""

    shard_requests: int = Field(
        default=256,
        gt=0,
        le=1_000_000,
        description="Requests served from an empty engine; the unit of resume.",
    )
    repeats: int = Field(
        default=1,
        gt=0,
        le=100,
        description="Times the workload is served and labelled, each time in another order.",
    )
    compare_batching: bool = Field(
        default=False,
        description="Serve it once more with prefill and denoising in the same rounds, to see "
        "whether rounds change.",
    )

    @property
    def servings(self) -> int:
        """How often the workload is served."""
        return self.repeats + self.compare_batching


AdmissionFeatures = Literal["sizes", "extended"]


class AdmissionSettings(_Section):
    """LightGBM regressor on prompt features (paper Section 4.2, Appendix 9)."""

    features: AdmissionFeatures = Field(
        default="sizes",
        description="sizes: words, newlines and prompt tokens (the paper's); extended: also how "
        "often each token occurs in the prompt, tokens hashed into bins.",
    )
    trees: int = Field(default=100, gt=0, le=MAX_TREES, description="Of the boosted ensemble.")
    leaves: int = Field(
        default=15, gt=1, le=MAX_LEAVES, description="At most this many leaves per tree."
    )
    learning_rate: float = Field(default=0.1, gt=0, le=1, description="Shrinkage of a tree.")
    min_leaf: int = Field(
        default=20, gt=0, le=1_000_000, description="Fewest training requests in a leaf."
    )


Duration = Literal["completion", "budget_free"]


class RefinerSettings(_Section):
    """Discrete-time survival MLPs on first-round hidden means (paper Section 4.2)."""

    width: int = Field(default=256, gt=0, le=MAX_WIDTH, description="Of hidden layers.")
    layers: int = Field(default=2, gt=0, le=MAX_LAYERS, description="Hidden layers.")
    dropout: float = Field(default=0.2, ge=0, lt=1, description="After every hidden layer.")
    members: int = Field(
        default=3, gt=0, le=MAX_MEMBERS, description="Networks averaged, one seed each."
    )
    hazard_knots: int = Field(
        default=16,
        gt=1,
        le=4_096,
        description="Degrees of freedom of a hazard curve while training.",
    )
    epochs: int = Field(
        default=100, gt=0, le=100_000, description="At most; early stopping ends sooner."
    )
    patience: int = Field(default=10, gt=0, le=100_000, description="Epochs without improvement.")
    batch_size: int = Field(default=128, gt=0, le=1_000_000, description="Requests in a step.")
    learning_rate: float = Field(default=1e-3, gt=0, le=1, description="Of AdamW.")
    weight_decay: float = Field(default=1e-2, ge=0, le=10, description="Of AdamW.")
    stop_fraction: float = Field(default=0.1, ge=0.01, le=0.5, description="Held out for stopping.")
    calibration_folds: int = Field(
        default=4, gt=1, le=100, description="Folds whose out-of-fold means fit the isotonic map."
    )
    duration: Duration = Field(
        default="completion",
        description="completion: hitting the budget ends a request (the paper's target); "
        "budget_free: it censors the duration.",
    )


Labels = Literal["first", "median"]


class PredictorSettings(_Section):
    """Both predictors."""

    labels: Labels = Field(
        default="first",
        description="Of training requests with profile.repeats: first: of the first profile; "
        "median: of the repeat with the median of their rounds.",
    )
    admission: AdmissionSettings = AdmissionSettings()
    refiner: RefinerSettings = RefinerSettings()


class Recipe(_Section):
    """Everything ``dwise train`` needs, as one value."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        max_length=100,
        description="Also the default run folder: letters, digits, '.', '_' and '-'.",
    )
    model: ModelSettings
    engine: EngineSettings = EngineSettings()
    decoding: DecodingSettings
    workload: WorkloadSettings = WorkloadSettings()
    profile: ProfileSettings = ProfileSettings()
    predictors: PredictorSettings = PredictorSettings()
    seed: int = Field(default=0, ge=0, lt=2**32, description="Of workload, split and training.")

    @model_validator(mode="after")
    def _median_of_several(self) -> Recipe:
        if self.predictors.labels == "median" and self.profile.repeats == 1:
            raise ValueError(
                "predictors.labels=median takes the median of several profiles, but "
                "profile.repeats is 1: set it to 3, or leave predictors.labels at first"
            )
        return self


def recipe_names() -> list[str]:
    """Names of the recipes that come with the package."""
    return sorted(path.stem for path in _RECIPES.glob("*.yaml"))


def load_recipe(model: str, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe called ``model``, or in the YAML file ``model``, with dotted overrides applied.

    ``overrides`` are ``section.key=value`` with YAML-typed values, applied in order. Another
    ``model.repo`` leaves behind what is true of the recipe's own repository: pin and sizes.
    Raises RecipeError on unknown names and keys, and on values of the wrong type or range.
    """
    path = _recipe_path(model)
    raw = _parsed(_text_of(path), f"recipe {path}")
    if not isinstance(raw, dict):
        raise RecipeError(f"recipe {path} is no mapping of sections; see the built-in recipes")
    if any(override.startswith("model.repo=") for override in overrides):
        _forget_repository(raw)
    for override in overrides:
        _apply(raw, override)
    try:
        return Recipe.model_validate(raw)
    except ValidationError as error:
        raise RecipeError(f"{describe(error, Recipe, 'recipe key')} (recipe {model})") from error


def predictor_settings(base: PredictorSettings, overrides: Sequence[str] = ()) -> PredictorSettings:
    """``base`` with overrides ``predictors.section.key=value`` applied, as for a recipe.

    Raises RecipeError on any other section: what was served cannot be changed any more.
    """
    raw = {"predictors": base.model_dump(mode="json")}
    for override in overrides:
        if not override.startswith("predictors."):
            raise RecipeError(
                f"--set {override!r}: the profile has been served already, so only "
                "predictors.* can be set"
            )
        _apply(raw, override)
    try:
        return PredictorSettings.model_validate(raw["predictors"])
    except ValidationError as error:
        raise RecipeError(describe(error, PredictorSettings, "key of predictors")) from error


def dump_recipe(recipe: Recipe) -> str:
    """The recipe with every default filled in, as YAML that :func:`load_recipe` reads back."""
    return yaml.safe_dump(recipe.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def recipe_differences(old: Recipe, new: Recipe) -> list[str]:
    """One line per key in which two recipes differ, as ``key: old -> new``."""
    before, after = _flattened(old.model_dump()), _flattened(new.model_dump())
    return [
        f"{key}: {before.get(key)} -> {after.get(key)}"
        for key in dict.fromkeys([*before, *after])
        if before.get(key) != after.get(key)
    ]


def _recipe_path(model: str) -> Path:
    if model.endswith((".yaml", ".yml")) or "/" in model:
        return Path(model)
    if model not in recipe_names():
        raise RecipeError(
            f"{unknown_name('model', model, recipe_names())}; or the path of a recipe (*.yaml)"
        )
    return _RECIPES / f"{model}.yaml"


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"cannot read recipe {path}: {error}") from error


def _parsed(text: str, origin: str) -> Any:
    try:
        return yaml.safe_load(text)
    except Exception as error:  # PyYAML's constructors leak ValueError, KeyError, IndexError, ...
        # Python's own advice about long numbers is for programmers.
        finding = " ".join(str(error).split()).partition("; use sys.")[0]
        raise RecipeError(f"{origin} is not valid YAML: {finding}") from error


def _apply(raw: dict[str, Any], override: str) -> None:
    key, equals, value = override.partition("=")
    parts = key.split(".")
    if not equals or not all(parts):
        raise RecipeError(f"--set {override!r} is no override: expected section.key=value")
    section = raw
    for part in parts[:-1]:
        if section.get(part) is None:
            section[part] = {}
        section = section[part]
        if not isinstance(section, dict):
            raise RecipeError(f"--set {override!r}: {part!r} is a value, not a section")
    section[parts[-1]] = _parsed(value, f"the value of --set {shortened(override)}")


def _forget_repository(raw: dict[str, Any]) -> None:
    model = raw.get("model")
    if isinstance(model, dict):
        for key in ("revision", "hidden_size", "weights_gb"):
            model.pop(key, None)


def _flattened(mapping: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in mapping.items():
        if isinstance(value, dict):
            flat |= _flattened(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
