"""What a campaign costs before it is begun: GPU time by the paper's figures, and disk space."""

from __future__ import annotations

from dataclasses import dataclass

from dwise_predict.recipe import Recipe

_REFERENCE = {
    "inclusionAI/LLaDA2.0-mini": "LLaDA2.0-mini",
    "inclusionAI/LLaDA2.1-mini": "LLaDA2.1-mini",
    "inclusionAI/LLaDA2.2-mini": "LLaDA2.2-mini",
    "JetLM/SDAR-8B-Chat": "SDAR-8B",
    "google/diffusiongemma-26B-A4B-it": "DiffusionGemma",
}
"""Repositories of the paper's models, and what its tables call them."""

_BUDGETS = {256: 526.2, 512: 607.3, 1024: 688.7, 2048: 782.1}
"""SGLang's mean latency in s by output budget, LLaDA2.1-mini, burst (Table 14)."""

_SPREADS = {(1, 1): 543.0, (2, 1): 498.1, (4, 1): 457.4, (4, 4): 454.2}
"""SGLang's mean latency in s by (TP, EP), LLaDA2.1-mini, burst (Table 13)."""

_SCALED = "LLaDA2.1-mini"
_FCFS_ROUNDS = {4: 116, 32: 16, 256: 4}
"""Rounds of FCFS per request, by block size: Table 3 (32) and the replays of ``dwise paper``."""

DATASETS_BYTES = 0.8e9
"""Downloads of the paper's workload, ShareGPT most of them."""
BUNDLE_BYTES = 20e6
"""A bundle and a report, generously."""
_REQUEST_BYTES = 600
_ROUND_BYTES = 30
"""Of the compressed tables; a test measures them."""


@dataclass(frozen=True)
class Estimate:
    """Hours of serving and what they are derived from; ``hours`` None is unknown."""

    hours: float | None
    basis: str


def requests(recipe: Recipe) -> int:
    """Requests that a generated or downloaded workload has."""
    return recipe.workload.train + recipe.workload.eval


def serving_hours(recipe: Recipe, count: int) -> Estimate:
    """Time to serve ``count`` requests first come, first served, on a GH200 like the paper's."""
    name = _REFERENCE.get(recipe.model.repo)
    if name is None:
        return Estimate(None, "the paper does not have this model")
    if recipe.workload.path is not None:
        return Estimate(None, "the paper does not have this workload")
    settings = recipe.engine.sglang
    spread = (settings.tp_size, settings.ep_size) if settings else (1, 1)
    budget = recipe.decoding.budget_tokens
    if (budget, spread) != (256, (1, 1)) and (
        name != _SCALED or budget not in _BUDGETS or spread not in _SPREADS
    ):
        return Estimate(None, f"the paper has no figure for {name} with this budget and spread")
    scale = _BUDGETS.get(budget, 1) / _BUDGETS[256] * _SPREADS.get(spread, 1) / _SPREADS[1, 1]
    rate = _throughput(name) / scale
    return Estimate(
        count / rate / 3600,
        f"{rate:.2f} requests/s: Table 2, SGLang's FCFS on one GH200"
        + ("" if scale == 1 else ", scaled by the mean latencies of Tables 13 and 14"),
    )


def profile_bytes(recipe: Recipe, count: int) -> float | None:
    """Size of the finished profile; None when the width of hidden states is unknown."""
    if recipe.model.hidden_size is None:
        return None
    rounds = _FCFS_ROUNDS.get(recipe.decoding.block_size, max(_FCFS_ROUNDS.values()))
    return count * (2 * recipe.model.hidden_size + _REQUEST_BYTES + rounds * _ROUND_BYTES)


def run_bytes(recipe: Recipe) -> float:
    """Disk that a run folder takes, shards and the finished profile side by side."""
    profile = profile_bytes(recipe, requests(recipe)) or 100e6
    return (1 + recipe.profile.servings) * profile + BUNDLE_BYTES + 60e6


def describe(recipe: Recipe, train: int, held_out: int) -> list[str]:
    """The campaign in lines: downloads, GPU hours, disk."""
    count, times = train + held_out, recipe.profile.servings
    estimate = serving_hours(recipe, count * times)
    gpus = recipe.engine.sglang.tp_size if recipe.engine.sglang else 1
    if estimate.hours is None:
        hours = f"unknown: {estimate.basis}"
    else:
        hours = (
            f"about {estimate.hours * gpus:.2g} GPU hours ({estimate.hours:.2g} h on {gpus} "
            f"GPU{'s' if gpus > 1 else ''}; {estimate.basis})"
        )
    weights = recipe.model.weights_gb
    stored = profile_bytes(recipe, count * times)
    return [
        f"download  weights {'unknown' if weights is None else f'{weights:g} GB'}"
        + (f", data sets {DATASETS_BYTES / 1e9:g} GB" if recipe.workload.name == "paper" else ""),
        f"serve     {count} requests{f', {times} times' if times > 1 else ''}, {hours}",
        "train     minutes on the CPU, no GPU",
        f"disk      profile {'unknown' if stored is None else f'{stored / 1e6:.0f} MB'}, "
        f"bundle and report under {BUNDLE_BYTES / 1e6:.0f} MB",
    ]


def _throughput(name: str) -> float:
    """Requests/s of SGLang's FCFS, burst arrivals (Table 2)."""
    from dwise_predict.simulation.paper.comparison import published_figures

    return next(
        figure.value
        for figure in published_figures()
        if (figure.table, figure.model, figure.arrival, figure.run, figure.figure)
        == ("Table 2", name, "burst", "SGLang", "throughput_rps")
    )
