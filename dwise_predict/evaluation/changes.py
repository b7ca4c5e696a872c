"""What refreshing a bundle changed: both bundles on the same requests, compared pair by pair."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dwise_predict.bundle.schema import Parent
from dwise_predict.errors import RunError
from dwise_predict.evaluation.bootstrap import NORMAL_95, bootstrap, standard_errors
from dwise_predict.evaluation.drift import category_weights
from dwise_predict.evaluation.judged import FIGURES, Judged
from dwise_predict.validation import describe


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Unseen(_Record):
    """Which requests were left out because the bundle was fitted on their prompts."""

    left_out: int = Field(description="Requests with prompts that are known to be fitted on.")
    unknown_profiles: tuple[str, ...] = Field(
        description="Hashes of profiles that the bundle was fitted on and that were not found: "
        "some of the evaluated prompts may be theirs, and figures too good."
    )


class Change(_Record):
    """A figure before and after, on the same requests."""

    figure: str = Field(description="As ``dwise evaluate`` names it.")
    before: float = Field(description="Of the bundle that was refreshed.")
    after: float = Field(description="Of the refreshed one.")
    gain: float = Field(
        description="How much better: of ranks and errors the difference, of ratios and coverage "
        "how much closer they are to 1 (in logarithms) and 0.8."
    )
    low: float = Field(description="Lower end of its 95% interval, bootstrapped over prompts.")
    high: float = Field(description="Upper end of its 95% interval.")


class Refresh(_Record):
    """refresh.json of a run folder."""

    format: Literal["dwise-refresh"] = "dwise-refresh"
    format_version: Literal[1] = 1
    parent: Parent = Field(description="The bundle that was refreshed.")
    unseen: Unseen = Field(description="Evaluation requests that were left out, and why not more.")
    added_trees: int = Field(description="That correct the admission predictor.")
    admission_factor: float = Field(description="By which admission estimates were multiplied.")
    seconds: float = Field(description="Of fitting, evaluation not included.")
    changes: tuple[Change, ...] = Field(description="On the evaluation requests.")


def read_refresh(path: Path) -> Refresh | None:
    """What a ``refresh.json`` says; None where there is none.

    Raises:
        RunError: it is damaged.
    """
    if not path.is_file():
        return None
    try:
        return Refresh.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise RunError(
            f"{path} is damaged ({describe(error, Refresh, 'key')}): refresh again with another "
            "--out"
        ) from error


def changes(before: Judged, after: Judged, seed: int = 0) -> tuple[Change, ...]:
    """Compare two bundles on the same requests, pair by pair of predictions.

    Figures that are undefined for one of them are left out.
    """
    examples = before.examples
    weights = category_weights(examples.category[examples.finished])
    rows = np.arange(len(examples))

    def gains(chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        return _goodness(after.figures(chosen, weights)) - _goodness(
            before.figures(chosen, weights)
        )

    old, new = before.figures(rows, weights), after.figures(rows, weights)
    gained = gains(rows)
    halves = NORMAL_95 * standard_errors(bootstrap(gains, examples.prompt, seed=seed))
    return tuple(
        Change(
            figure=name,
            before=float(old[i]),
            after=float(new[i]),
            gain=float(gained[i]),
            low=float(gained[i] - halves[i]),
            high=float(gained[i] + halves[i]),
        )
        for i, name in enumerate(FIGURES)
        if math.isfinite(gained[i]) and math.isfinite(halves[i])
    )


def _goodness(figures: NDArray[np.float64]) -> NDArray[np.float64]:
    """Figures such that more is better, in their own units (ratios: logarithms)."""
    good = []
    for name, value in zip(FIGURES, figures.tolist(), strict=True):
        if name.endswith("ratio"):
            good.append(-abs(math.log(value)) if value > 0 else math.nan)
        elif name.endswith("error"):
            good.append(-value)
        elif name == "coverage":
            good.append(-abs(value - 0.8))
        else:
            good.append(value)
    return np.array(good)
