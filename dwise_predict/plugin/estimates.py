"""What a request's admission estimate is made of, and what stands in where it fails."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

from dwise_predict.bundle import PredictorBundle
from dwise_predict.plugin.metrics import Counts
from dwise_predict.plugin.requests import Tracked
from dwise_predict.workload.schema import newline_count, word_count

_log = logging.getLogger(__name__)


def text_counts(tokenizer: Any, prompt_ids: Sequence[int]) -> tuple[float, float]:
    """Words and newlines of a prompt's text, special tokens left out; NaN without a tokenizer.

    From tokens, so that they are counted alike for every way in.
    """
    if tokenizer is None:
        return math.nan, math.nan
    text = tokenizer.decode(list(prompt_ids), skip_special_tokens=True)
    return float(word_count(text)), float(newline_count(text))


def admission_estimate(
    bundle: PredictorBundle, tracked: Tracked, prompt_ids: Sequence[int], counts: Counts
) -> float:
    """Estimated denoising rounds; where prediction fails, those of a middling answer, counted."""
    try:
        rounds = bundle.admission.rounds(
            words=tracked.words,
            newlines=tracked.newlines,
            prompt_tokens=tracked.prompt_tokens,
            token_ids=prompt_ids,
        )
    except Exception:
        _log.exception("DWISE: admission prediction failed")
        rounds = math.nan
    if math.isnan(tracked.words):
        counts.fallbacks["no_tokenizer"] += 1
    if math.isfinite(rounds):
        return rounds
    counts.fallbacks["admission_failed"] += 1
    return bundle.metrics.rounds.p50
