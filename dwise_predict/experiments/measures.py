"""Figures of served runs, by the names of ``simulation/paper/published.csv``."""

from __future__ import annotations

import numpy as np

from dwise_predict.results import Results

MEAN, P50, P99 = "mean_latency_s", "p50_latency_s", "p99_latency_s"
SPEEDUP, P50_SPEEDUP, P99_SPEEDUP = "speedup", "p50_speedup", "p99_speedup"
SPEEDUPS = {SPEEDUP: MEAN, P50_SPEEDUP: P50, P99_SPEEDUP: P99}
"""Ratios of SGLang's figure to a run's, by the name of the ratio."""
TAILS = {"p99": "category_p99_speedup", "max": "category_max_speedup"}
"""Ratios of SGLang's tail to DWISE's in one category, by tail."""


def is_choice(category: str) -> bool:
    """Whether a category is multiple choice, which the paper treats apart."""
    return "choice" in category


def measures(results: Results) -> dict[str, float]:
    """Figures of one served run; seconds end in ``_s``, shares of 100 in ``_pct``."""
    summary, rounds = results.summary, results.rounds
    figures = {
        MEAN: summary.latency_s.mean,
        P50: summary.latency_s.p50,
        P99: summary.latency_s.p99,
        "throughput_rps": summary.throughput_rps,
        "rounds": float(summary.rounds),
        "prefill_only_rounds_pct": 100 * summary.prefill_only_rounds,
        "prefill_only_time_pct": 100 * summary.prefill_only_time,
        "idle_slots_pct": 100 * summary.idle_slots,
        "filled_slots": summary.filled_slots,
        "median_round_ms": float(np.median(rounds["wall_ms"].to_numpy())),
        "preemptions": summary.preemptions_per_request,
        "reached_zero_pct": 100 * summary.reached_zero,
        "blocked_by_cap_pct": 100 * summary.blocked_by_cap,
    }
    if summary.first_block_s is not None:
        figures |= {
            "first_block_mean_s": summary.first_block_s.mean,
            "first_block_p50_s": summary.first_block_s.p50,
            "first_block_p99_s": summary.first_block_s.p99,
        }
    for name, category in summary.by_category.items():
        figures[f"{name}_p99_s"] = category.latency_s.p99
        figures[f"{name}_max_s"] = category.latency_s.max
    checked = [
        known for known in results.requests["answer_correct"].to_pylist() if known is not None
    ]
    if checked:
        figures["accuracy_pct"] = 100 * sum(checked) / len(checked)
    return figures | _choice_and_others(results)


def _choice_and_others(results: Results) -> dict[str, float]:
    """Latency summed over multiple choice and over the rest, per request of the workload."""
    requests = results.requests
    latency = requests["finished_s"].to_numpy() - requests["arrival_s"].to_numpy()
    choice = np.array([is_choice(name) for name in requests["category"].to_pylist()])
    return {
        "choice_latency_sum_s": float(latency[choice].sum() / len(latency)),
        "other_latency_sum_s": float(latency[~choice].sum() / len(latency)),
    }
