"""The figures of summary.json: pure functions of requests and rounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dwise_predict.results.records import CategorySummary, FirstBlock, Latency, Summary

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Conditions:
    """How requests were served, and what the scheduler counted meanwhile.

    ``preemptions`` are residents displaced by others, ``reached_zero`` requests that went on after
    their estimate had fallen to zero, ``blocked_by_cap`` rounds in which the resident cap kept a
    request out (all in :class:`~dwise_predict.scheduling.Counters`).
    """

    policy: str
    former: str
    engine: str
    arrival: str
    slots: int
    preemptions: int
    reached_zero: int
    blocked_by_cap: int = 0


def summarise(requests: pa.Table, rounds: pa.Table, conditions: Conditions) -> Summary:
    """Summarise served requests and rounds, at least one of each.

    Args:
        requests: of :data:`~dwise_predict.results.records.REQUESTS_SCHEMA`.
        rounds: of :data:`~dwise_predict.results.records.ROUNDS_SCHEMA`.
        conditions: of the run.
    """
    n = requests.num_rows
    arrival, finished = _floats(requests, "arrival_s"), _floats(requests, "finished_s")
    total, first_block = finished - arrival, _floats(requests, "first_block_s") - arrival
    category = np.array(requests["category"].to_pylist(), dtype=np.str_)
    wall, filled = _floats(rounds, "wall_ms"), _floats(rounds, "slots")
    prefill_only = filled == _floats(rounds, "prefill_slots")
    span = float(finished.max() - arrival.min())
    return Summary(
        policy=conditions.policy,
        former=conditions.former,
        engine=conditions.engine,
        arrival=conditions.arrival,
        n=n,
        latency_s=latency(total),
        first_block_s=first_block_times(first_block),
        throughput_rps=n / span,
        rounds=rounds.num_rows,
        prefill_only_rounds=float(prefill_only.mean()),
        prefill_only_time=float(wall[prefill_only].sum() / wall.sum()),
        idle_slots=float(1 - filled.mean() / conditions.slots),
        filled_slots=float(filled.mean()),
        preemptions_per_request=conditions.preemptions / n,
        reached_zero=conditions.reached_zero / n,
        blocked_by_cap=conditions.blocked_by_cap / rounds.num_rows,
        by_category={
            str(name): CategorySummary(
                n=int((category == name).sum()),
                latency_s=latency(total[category == name]),
                first_block_s=first_block_times(first_block[category == name]),
            )
            for name in np.unique(category)
        },
    )


def latency(seconds: Floats) -> Latency:
    """Mean, percentiles and maximum of latencies [n], n at least 1."""
    p50, p90, p99 = np.percentile(seconds, (50, 90, 99))
    return Latency(
        mean=float(seconds.mean()),
        p50=float(p50),
        p90=float(p90),
        p99=float(p99),
        max=float(seconds.max()),
    )


def first_block_times(seconds: Floats) -> FirstBlock | None:
    """Mean and percentiles of times to the first block [n]; NaN counts as none."""
    known = seconds[~np.isnan(seconds)]
    if not len(known):
        return None
    p50, p99 = np.percentile(known, (50, 99))
    return FirstBlock(mean=float(known.mean()), p50=float(p50), p99=float(p99))


def _floats(table: pa.Table, name: str) -> Floats:
    """A column as float64, NaN where it is null."""
    values: Floats = table[name].to_numpy().astype(np.float64)
    return values
