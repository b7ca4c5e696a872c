"""README.md of a bundle: its model card."""

from __future__ import annotations

import re

from dwise_predict.bundle.metrics import Metrics, RankMetrics
from dwise_predict.bundle.schema import BundleConfig

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")


def model_card(config: BundleConfig, metrics: Metrics) -> str:
    """Write the card from what the bundle holds; nothing in it is typed by hand."""
    fingerprint = config.fingerprint
    parameters = ", ".join(f"{k} {v:g}" for k, v in fingerprint.algorithm_parameters.items())
    rounds = metrics.rounds
    return f"""{_front_matter(config)}
# Denoising-round predictors for {fingerprint.model}

Predicts how many denoising rounds a request of this block-diffusion language model needs: once
from its prompt, when it arrives, and once from the hidden states of its first round.

## Valid for

| | |
|---|---|
| model | {fingerprint.model}, revision {fingerprint.revision or "unknown"} |
| decoding | {fingerprint.algorithm} ({parameters}), blocks of {fingerprint.block_size} tokens |
| output budget | {fingerprint.budget_tokens} tokens |
| engine | {fingerprint.engine} {fingerprint.engine_version}, {fingerprint.dtype} |
| a round counts | {fingerprint.work_unit} |
| duration | {_duration(config)} |

Another model, decoding setting or budget needs predictors of its own.

## Quality

On {metrics.n_eval} requests with prompts that were not trained on ({metrics.n_train} were); their
rounds: median {rounds.p50:g}, 90th percentile {rounds.p90:g}, largest {rounds.max:g}.

| predictor | Spearman | within category | median predicted / actual | mean absolute error |
|---|---|---|---|---|
{_row("admission", metrics.admission)}
{_row("refined", metrics.refined)}
{_row("refined, uncalibrated", metrics.refined_raw)}

`metrics.json` has more, among it the correlation on categories held out of training.

## Use

```python
from dwise_predict import PredictorBundle

bundle = PredictorBundle.load("path/of/this/folder")
bundle.admission.rounds(words=31, newlines=2, prompt_tokens=57)
remaining = bundle.refiner(hidden_mean, prompt_tokens, budget_tokens)
remaining.mean()
```

`hidden_mean` is the mean over all positions of the block of the final normed hidden state in the
request's first denoising round, `[n, {config.refiner.hidden_size}]`.

## Limits

- Rounds depend on what people ask: on other prompts than the profiled ones, expect less.
- Estimates (`mean`, `mean_residual`) are typical rounds, on one scale with admission estimates;
  `quantile` and `survival` are probabilities. Durations beyond {config.refiner.horizon} remaining
  rounds were not seen.
"""


def _front_matter(config: BundleConfig) -> str:
    lines = ["---"]
    if _HUB_ID.fullmatch(config.fingerprint.model):
        lines.append(f"base_model: {config.fingerprint.model}")
    return "\n".join(
        [
            *lines,
            "library_name: dwise-predict",
            "tags:",
            "- diffusion-language-model",
            "- scheduling",
            "- survival-analysis",
            "---",
        ]
    )


def _duration(config: BundleConfig) -> str:
    if config.refiner.duration == "completion":
        return "until the answer or the budget ends"
    return "until the answer ends; reaching the budget censors it"


def _row(name: str, rank: RankMetrics) -> str:
    within = _number(rank.spearman_within)
    return (
        f"| {name} | {_number(rank.spearman)} | {within} | {rank.median_ratio:.2f} "
        f"| {rank.mae:.1f} |"
    )


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"
