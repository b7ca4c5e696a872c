"""README.md of a bundle: its model card, written from what the bundle holds and nothing else."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dwise_predict.bundle.metrics import Metrics, RankMetrics, Transfer
from dwise_predict.bundle.schema import BundleConfig, Provenance
from dwise_predict.hub.address import is_repo
from dwise_predict.predictors.features import SIZES

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

LICENSE = "apache-2.0"
"""Of predictors trained with this library, as of the library itself."""
_TASK = "tabular-regression"
_TAGS = ("diffusion-language-model", "scheduling", "survival-analysis", "dwise")


def model_card(config: BundleConfig, metrics: Metrics, provenance: Provenance) -> str:
    """Write the card; the same content gives the same text."""
    fingerprint = config.fingerprint
    parameters = ", ".join(f"{k} {v:g}" for k, v in fingerprint.algorithm_parameters.items())
    rounds, survival = metrics.rounds, metrics.survival
    return f"""---
{_front_matter(config, metrics, provenance)}
---

# Denoising-round predictors for {fingerprint.model}

Predicts how many denoising rounds a request of this block-diffusion language model needs: once
from its prompt, when it arrives, and once from the hidden states of its first round. A scheduler
that knows the remaining work of its requests can serve the least of it first.

## Valid for

| | |
|---|---|
| model | {fingerprint.model}, revision {fingerprint.revision or "unknown"} |
| architecture | {fingerprint.architecture}, hidden size {fingerprint.hidden_size} |
| decoding | {fingerprint.algorithm} ({parameters}), blocks of {fingerprint.block_size} tokens, \
{"first done, first out" if fingerprint.fdfo else "whole batches"} |
| output budget | {fingerprint.budget_tokens} tokens |
| engine | {fingerprint.engine} {fingerprint.engine_version}, {fingerprint.dtype} |
| a round counts | {fingerprint.work_unit} |
| duration | {_duration(config)} |

Another model or decoding setting needs predictors of its own; `bundle.check(fingerprint)` names
every difference and what it does to the predictions.

## Use in a custom scheduler

```python
from dwise_predict import PredictorBundle

bundle = PredictorBundle.from_pretrained("ORG/{repo_name(config)}", revision="COMMIT")
bundle.admission.rounds({_admission_inputs(config)})  # total rounds, at arrival
remaining = bundle.refiner(hidden_mean, prompt_tokens, budget_tokens)  # after the first round
remaining.mean()
```

`hidden_mean` is the mean over all positions of the block of the final normed hidden state in the
request's first denoising round, `[n, {config.refiner.hidden_size}]`. `ORG` is where you found this
card, `COMMIT` the commit you want to pin.

## Use in SGLang

With the SGLang plugin of `dwise-predict` installed beside SGLang:

```sh
DWISE_BUNDLE=ORG/{repo_name(config)} DWISE_MODE=schedule \\
  python -m sglang.launch_server --model-path {_model_path(fingerprint.model)}
```

## Evaluation

On {metrics.n_eval} requests with prompts that were not trained on; their rounds: median \
{rounds.p50:g},
90th percentile {rounds.p90:g}, largest {rounds.max:g}.

| predictor | Spearman | within category | median predicted / actual | mean absolute error |
|---|---|---|---|---|
{_row("admission", metrics.admission)}
{_row("refined", metrics.refined)}
{_row("refined, uncalibrated", metrics.refined_raw)}

Predicted distributions: c-index {_number(survival.c_index)}, integrated Brier score \
{_number(survival.integrated_brier)}, D-calibration p {_number(survival.d_calibration_p)}.
{_held_out(metrics)}
## Training

| | |
|---|---|
| requests | {metrics.n_train} for training, {metrics.n_eval} for evaluation, \
{metrics.n_aborted} of them aborted |
| workload | {provenance.workload} (SHA-256 `{provenance.workload_sha256[:16]}…`) |
| prompts from | {_cell(", ".join(provenance.datasets)) or "not recorded"} |
| admission | LightGBM, {config.admission.trees} trees of at most {config.admission.leaves} \
leaves, on {", ".join(config.admission.features)} |
| refinement | {config.refiner.members} networks of {config.refiner.layers} x \
{config.refiner.width}, {config.refiner.horizon} future rounds |
| calibration | {_calibration(config)} |
| seed | {config.seed} |

## Provenance

| | |
|---|---|
| command | `{_code(provenance.command) or "not recorded"}` |
| made | {provenance.created_at:%Y-%m-%d} with dwise-predict {config.library_version}, \
git revision {provenance.git_revision or "unknown"} |
| profile | {provenance.profile_repo or "local"}, SHA-256 `{provenance.profile_sha256[:16]}…` |
| packages | {", ".join(f"{name} {version}" for name, version in provenance.packages.items())} |
{_parent(provenance)}
`config.json` holds the SHA-256 of every file; `dwise verify` checks them and repeats predictions
that were stored when the bundle was made.

## Limits

- Rounds depend on what people ask: on other prompts than the profiled ones, expect less.
- Estimates (`mean`, `mean_residual`) are typical rounds, on one scale with admission estimates;
  `quantile` and `survival` are probabilities. Durations beyond {config.refiner.horizon} remaining
  rounds were not seen.
- Estimates count rounds, not seconds.
"""


def repo_name(config: BundleConfig) -> str:
    """Name that the bundle's Hub repository should have: ``dwise-<model>``."""
    model = re.split(r"[/:]", config.fingerprint.model)[-1].lower()
    return "dwise-" + (re.sub(r"[^a-z0-9._-]+", "-", model).strip("-.") or "model")


def _front_matter(config: BundleConfig, metrics: Metrics, provenance: Provenance) -> str:
    from huggingface_hub import ModelCardData

    model = config.fingerprint.model
    repo = (provenance.profile_repo or "").partition("@")[0]
    data = ModelCardData(
        library_name="dwise-predict",
        license=LICENSE,
        base_model=model if is_repo(model) else None,
        datasets=[name for name in (repo, *provenance.datasets) if is_repo(name)] or None,
        tags=list(_TAGS),
        model_name=repo_name(config),
        eval_results=_results(metrics, provenance),
    )
    return str(data.to_yaml())


def _results(metrics: Metrics, provenance: Provenance) -> list[EvalResult]:
    """Rows of the model index; undefined figures are left out."""
    from huggingface_hub import EvalResult

    figures = [
        (f"{title}, {name}", kind, value)
        for name, rank in (("admission", metrics.admission), ("refined", metrics.refined))
        for title, kind, value in (
            ("Spearman", "spearmanr", rank.spearman),
            ("Spearman within category", "spearmanr_within_category", rank.spearman_within),
            ("Median predicted / actual", "median_ratio", rank.median_ratio),
            ("Mean absolute error in rounds", "mae", rank.mae),
        )
    ]
    return [
        EvalResult(
            task_type=_TASK,
            task_name="Denoising-round prediction",
            dataset_type=(provenance.profile_repo or provenance.workload).partition("@")[0],
            dataset_name=f"{provenance.workload}: {metrics.n_eval} requests with unseen prompts",
            metric_type=kind,
            metric_name=title,
            metric_value=round(value, 4),
        )
        for title, kind, value in figures
        if value is not None
    ]


def _held_out(metrics: Metrics) -> str:
    if not metrics.held_out:
        return ""
    rows = [
        f"| {_cell(name)} | {row.n_eval} | {_transfer(row.admission)} | {_transfer(row.refined)} |"
        for name, row in metrics.held_out.items()
    ]
    return "\n".join(
        [
            "",
            "Rank correlation inside a category when both predictors are trained with and without "
            "it:",
            "",
            "| category | requests | admission: with, without | refined: with, without |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _transfer(transfer: Transfer) -> str:
    return f"{_number(transfer.in_training)}, {_number(transfer.held_out)}"


def _admission_inputs(config: BundleConfig) -> str:
    sizes = "words=31, newlines=2, prompt_tokens=57"
    return sizes if config.admission.features == SIZES else f"{sizes}, token_ids=prompt_ids"


def _duration(config: BundleConfig) -> str:
    if config.refiner.duration == "completion":
        return "until the answer or the budget ends"
    return "until the answer ends; reaching the budget censors it"


def _calibration(config: BundleConfig) -> str:
    if config.calibration is None:
        return "none: estimates are expectations"
    return f"isotonic, {len(config.calibration.raw)} knots"


def _parent(provenance: Provenance) -> str:
    parent = provenance.parent
    if parent is None:
        return ""
    what = {
        "weights": "both predictors trained further",
        "calibration": "calibration fitted again",
    }[parent.refresh]
    return f"| refreshed from | {_cell(parent.source)}, digest `{parent.digest[:16]}…`: {what} |\n"


def _model_path(model: str) -> str:
    return model if is_repo(model) else "MODEL"


def _code(text: str) -> str:
    return _cell(text.replace("`", "'"))


def _cell(text: str) -> str:
    """Text of a person inside a table: a category may be called anything printable."""
    return text.replace("|", "\\|")


def _row(name: str, rank: RankMetrics) -> str:
    within = _number(rank.spearman_within)
    return (
        f"| {name} | {_number(rank.spearman)} | {within} | {rank.median_ratio:.2f} "
        f"| {rank.mae:.1f} |"
    )


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"
