"""Schema of metrics.json: what a bundle's predictors reached on prompts they never saw."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class _Metrics(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class RoundsSummary(_Metrics):
    """Denoising rounds of the evaluation requests."""

    p10: float = Field(description="10th percentile.")
    p25: float = Field(description="25th percentile.")
    p50: float = Field(description="Median.")
    p90: float = Field(description="90th percentile.")
    max: float = Field(description="Largest.")
    mean: float = Field(description="Mean.")


class CategoryRank(_Metrics):
    """One predictor inside one category."""

    n: int = Field(description="Its evaluation requests that were served to their end.")
    spearman: float | None = Field(description="Rank correlation inside it; None: undefined.")
    median_ratio: float = Field(description="Median of predicted / actual inside it.")


class RankMetrics(_Metrics):
    """One predictor against the total denoising rounds of evaluation requests."""

    spearman: float | None = Field(
        description="Rank correlation with true rounds; None: undefined (constant values)."
    )
    spearman_within: float | None = Field(
        description="Mean over categories of the correlation inside each."
    )
    categories: int = Field(description="Categories among the evaluation requests.")
    undefined_categories: int = Field(description="Of these, left out of spearman_within.")
    median_ratio: float = Field(description="Median of predicted / actual.")
    mae: float = Field(description="Mean absolute error in rounds.")
    by_category: dict[str, CategoryRank] = Field(
        default_factory=dict, description="Inside each category; since 1.3."
    )


class Transfer(_Metrics):
    """Rank correlation with categories seen in training and held out of it (paper Table 17).

    ``in_training`` and ``held_out`` are correlations inside the category on its evaluation
    requests (their mean for several categories); ``all_*`` are over every evaluation request.
    """

    in_training: float | None = Field(description="Inside the category, trained with it.")
    held_out: float | None = Field(description="Inside the category, trained without it.")
    all_in_training: float | None = Field(description="Over all requests, trained with it.")
    all_held_out: float | None = Field(description="Over all requests, trained without it.")


class HeldOut(_Metrics):
    """Both predictors retrained without some categories, with all members, as the bundle's own."""

    categories: tuple[str, ...] = Field(description="What was held out.")
    n_train: int = Field(description="Training requests that were left.")
    n_eval: int = Field(description="Evaluation requests of these categories.")
    admission: Transfer = Field(description="Of admission predictions.")
    refined: Transfer = Field(description="Of refined predictions.")


class SurvivalMetrics(_Metrics):
    """Predicted distributions of remaining rounds; None where undefined."""

    c_index: float | None = Field(description="Harrell's concordance of the raw expectation.")
    integrated_brier: float | None = Field(
        description="Integrated Brier score of the survival curves; 0 is perfect."
    )
    d_calibration_p: float | None = Field(description="Below 0.05: probabilities are off.")
    coverage_80: float | None = Field(
        default=None,
        description="Share of requests that ended between the 10% and the 90% quantile, 0.8 when "
        "probabilities are right; since 1.3.",
    )


class Metrics(_Metrics):
    """metrics.json; identical bytes for identical profile, settings and seed."""

    rounds: RoundsSummary = Field(description="True rounds of the evaluation requests.")
    admission: RankMetrics = Field(description="Predicted at admission.")
    refined: RankMetrics = Field(description="Predicted after the first round, calibrated.")
    refined_raw: RankMetrics = Field(description="Refined before calibration.")
    held_out: dict[str, HeldOut] = Field(
        description="By held-out category; joined with + where several are held out at once."
    )
    held_out_skipped: dict[str, str] = Field(description="Why a category has no such row.")
    survival: SurvivalMetrics = Field(description="Predicted distributions.")
    n_train: int = Field(description="Training requests.")
    n_eval: int = Field(description="Evaluation requests; their prompts were not trained on.")
    n_aborted: int = Field(description="Of n_train + n_eval; censored, and not ranked.")
