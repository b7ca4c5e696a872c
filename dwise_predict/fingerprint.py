"""What labels and predictors are valid for; two fingerprints are compared field by field."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Fingerprint(BaseModel):
    """Everything that changes how many denoising rounds a request takes, or its hidden states."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field(
        description="Hub repository of the target model, builtin:tiny, or local: and the name of "
        "a checkpoint folder."
    )
    revision: str | None = Field(description="Commit of the weights, or their content hash.")
    architecture: str = Field(description="First entry of architectures in config.json.")
    hidden_size: int = Field(gt=0)
    algorithm: str = Field(description="Decoding algorithm as SGLang names it.")
    algorithm_parameters: dict[str, float] = Field(description="Its parameters, defaults filled.")
    block_size: int = Field(gt=0, description="Tokens per block.")
    fdfo: bool = Field(description="First done, first out: blocks leave a round one by one.")
    budget_tokens: int = Field(gt=0, description="Output tokens a request may use.")
    engine: str = Field(description="torch or sglang.")
    engine_version: str
    dtype: str = Field(description="Weights and activations: float32, bfloat16 or float16.")
    work_unit: str = Field(
        default="rounds_with_commit",
        description="What one round of a label counts; the committing forward is included.",
    )


def fingerprint_differences(old: Fingerprint, new: Fingerprint) -> list[str]:
    """One line per field in which two fingerprints differ, as ``field: old -> new``."""
    before, after = old.model_dump(), new.model_dump()
    return [
        f"{field}: {before[field]} -> {after[field]}"
        for field in before
        if before[field] != after[field]
    ]
