"""What is read off a replay to be compared with the paper."""

from __future__ import annotations

import numpy as np

from dwise_predict.rank import spearman
from dwise_predict.simulation.paper.lengths import CHOICE
from dwise_predict.simulation.predictions import Predictions
from dwise_predict.simulation.replay import Replay
from dwise_predict.simulation.workload import SimulatedWorkload

CODE_AND_MATH = ("code", "math")


def measure(workload: SimulatedWorkload, replay: Replay, slots: int) -> dict[str, float]:
    """Figures of one run by the names of ``published.csv``."""
    latency = replay.finished_s - replay.arrival_s
    first_block = replay.first_block_s - replay.arrival_s
    categories = np.array(workload.categories)
    choice = np.isin(categories, CHOICE)
    prefill_only = replay.prefill_slots == replay.slots
    rows = replay.slots[prefill_only]
    total_ms = replay.round_ms.sum()
    n, rounds = len(latency), len(replay.slots)
    figures = {
        "mean_latency_s": latency.mean(),
        "p50_latency_s": np.quantile(latency, 0.5),
        "p99_latency_s": np.quantile(latency, 0.99),
        "first_block_mean_s": first_block.mean(),
        "first_block_p50_s": np.quantile(first_block, 0.5),
        "first_block_p99_s": np.quantile(first_block, 0.99),
        "throughput_rps": n / replay.finished_s.max(),
        "rounds": rounds,
        "prefill_only_rounds_pct": 100 * prefill_only.mean(),
        "prefill_only_time_pct": 100 * replay.round_ms[prefill_only].sum() / total_ms,
        "prefill_only_rows": rows.mean() if len(rows) else 0.0,
        "idle_slots_pct": 100 * (1 - replay.slots.mean() / slots),
        "filled_slots": replay.slots.mean(),
        "median_round_ms": np.median(replay.round_ms),
        "idle_resident_rounds": (replay.residents - replay.slots).sum() / n,
        "preemptions": replay.counters.preemptions / n,
        "reached_zero_pct": 100 * replay.counters.reached_zero / n,
        "blocked_by_cap_pct": 100 * replay.counters.blocked_by_cap / rounds,
        "choice_latency_sum_s": latency[choice].sum() / n,
        "other_latency_sum_s": latency[~choice].sum() / n,
        "code_math_latency_s": latency[np.isin(categories, CODE_AND_MATH)].mean(),
    }
    for name in sorted(set(workload.categories)):
        of_category = latency[categories == name]
        figures[f"{name}_p99_s"] = np.quantile(of_category, 0.99)
        figures[f"{name}_max_s"] = of_category.max()
    return {name: float(value) for name, value in figures.items()}


def measure_predictions(workload: SimulatedWorkload, predictions: Predictions) -> dict[str, float]:
    """How well the estimates that rank last (refined ones if there are any) fit rounds and work."""
    rounds = workload.rounds.astype(np.float64)
    estimate, truth = predictions.admission, rounds
    if predictions.refined is not None:
        estimate, truth = predictions.refined, rounds - 1
    prefill = workload.prompt_blocks
    other = ~np.isin(np.array(workload.categories), CHOICE)
    known = truth > 0
    work, ranked = rounds + prefill, estimate + prefill
    correlations = {
        "spearman": spearman(estimate, truth),
        "work_spearman": spearman(ranked, work),
        "work_spearman_other": spearman(ranked[other], work[other]),
        "score_work_spearman": spearman(estimate, work),
        "score_work_spearman_other": spearman(estimate[other], work[other]),
    }
    # Equal estimates (no predictor) order nothing.
    defined = {name: 0.0 if value is None else value for name, value in correlations.items()}
    return defined | {"median_ratio": float(np.median(estimate[known] / truth[known]))}
