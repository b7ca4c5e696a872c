"""Schema of metrics.json: what a bundle's predictors reached on prompts they never saw."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class _Metrics(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class RoundsSummary(_Metrics):
    """Denoising rounds of the evaluation requests."""

    p10: float
    p25: float
    p50: float
    p90: float
    max: float
    mean: float


class RankMetrics(_Metrics):
    """One predictor against the total denoising rounds of evaluation requests."""

    spearman: float | None = Field(description="None: undefined (constant values).")
    spearman_within: float | None = Field(
        description="Mean over categories of the correlation inside each."
    )
    categories: int = Field(description="Categories among the evaluation requests.")
    undefined_categories: int = Field(description="Of these, left out of spearman_within.")
    median_ratio: float = Field(description="Median of predicted / actual.")
    mae: float = Field(description="Mean absolute error in rounds.")


class Transfer(_Metrics):
    """Rank correlation with categories seen in training and held out of it (paper Table 17).

    ``in_training`` and ``held_out`` are correlations inside the category on its evaluation
    requests (their mean for several categories); ``all_*`` are over every evaluation request.
    """

    in_training: float | None
    held_out: float | None
    all_in_training: float | None
    all_held_out: float | None


class HeldOut(_Metrics):
    """Both predictors retrained without some categories, with all members, as the bundle's own."""

    categories: tuple[str, ...]
    n_train: int
    n_eval: int = Field(description="Evaluation requests of these categories.")
    admission: Transfer
    refined: Transfer


class SurvivalMetrics(_Metrics):
    """Predicted distributions of remaining rounds; None where undefined."""

    c_index: float | None = Field(description="Harrell's concordance of the raw expectation.")
    integrated_brier: float | None
    d_calibration_p: float | None = Field(description="Below 0.05: probabilities are off.")


class Metrics(_Metrics):
    """metrics.json; identical bytes for identical profile, settings and seed."""

    rounds: RoundsSummary
    admission: RankMetrics
    refined: RankMetrics
    refined_raw: RankMetrics = Field(description="Refined before calibration.")
    held_out: dict[str, HeldOut] = Field(
        description="By held-out category; joined with + where several are held out at once."
    )
    held_out_skipped: dict[str, str] = Field(description="Why a category has no such row.")
    survival: SurvivalMetrics
    n_train: int
    n_eval: int
    n_aborted: int = Field(description="Of n_train + n_eval; censored, and not ranked.")
