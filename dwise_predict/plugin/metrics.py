"""Counts of the plugin and their way to SGLang's ``/metrics``."""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from dwise_predict.plugin.activation import Activation
from dwise_predict.plugin.requests import Tracked
from dwise_predict.scheduling import Counters

_EVERY_S = 0.25
_SECONDS = (0.00005, 0.0001, 0.0002, 0.0003, 0.0005, 0.001, 0.002, 0.005)
_RATIOS = (0.25, 0.5, 0.75, 0.9, 1.1, 1.33, 2.0, 4.0)


@dataclass(slots=True)
class Counts:
    """What happened since the start; the lists hold what was not yet published."""

    rounds: int = 0
    prefill_only_rounds: int = 0
    filled_slots: int = 0
    refinements: int = 0
    residents: int = 0
    waiting: int = 0
    running: int = 0
    fallbacks: Counter[str] = field(default_factory=Counter)
    planning_s: list[float] = field(default_factory=list)
    admission_ratio: list[float] = field(default_factory=list)
    refined_ratio: list[float] = field(default_factory=list)

    def clear_unpublished(self) -> None:
        """Forget what waits to be published."""
        for unpublished in (self.planning_s, self.admission_ratio, self.refined_ratio):
            unpublished.clear()

    def ratios(self, tracked: Tracked) -> None:
        """Compare the estimates of a finished request with its rounds."""
        self.admission_ratio.append(tracked.estimate / max(tracked.rounds, 1))
        if math.isfinite(tracked.refined):
            self.refined_ratio.append((tracked.refined + 1) / max(tracked.rounds, 1))

    def totals(self, core: Counters | None) -> dict[str, float]:
        """Everything that only grows, by metric name without prefix."""
        totals: dict[str, float] = {
            "rounds": self.rounds,
            "prefill_only_rounds": self.prefill_only_rounds,
            "filled_slots": self.filled_slots,
            "refinements": self.refinements,
        }
        if core is not None:
            totals |= {
                "preemptions": core.preemptions,
                "zero_clamps": core.reached_zero,
                "admission_blocked_cap": core.blocked_by_cap,
                "admission_blocked_kv": core.blocked_by_kv,
            }
        return totals


class Exporter:
    """Publishes counts through SGLang's Prometheus registry, a few times a second at most.

    Must not be made before a scheduler process runs: prometheus_client decides when it is first
    imported whether its values are shared between processes.
    """

    def __init__(self, activation: Activation, rank: int, replica: int) -> None:
        from prometheus_client import Counter as Total
        from prometheus_client import Gauge, Histogram

        labels, own = ["tp_rank", "dp_rank"], (str(rank), str(replica))

        def gauge(name: str, text: str, more: dict[str, str] | None = None) -> Any:
            names = [*labels, *(more or {})]
            made = Gauge(f"dwise_{name}", text, names, multiprocess_mode="mostrecent")
            return made.labels(*own, *(more or {}).values())

        told = {key: str(value) for key, value in activation.describe().items()}
        self._active = gauge("active", "1 where DWISE acts as labelled", told)
        self._active.set(activation.mode != "off")
        self._totals = {
            name: Total(f"dwise_{name}_total", text, labels).labels(*own)
            for name, text in _TOTALS.items()
        }
        self._fallbacks = Total(
            "dwise_fallbacks_total", "Predictions or plans done without", [*labels, "reason"]
        )
        self._gauges = {name: gauge(name, text) for name, text in _GAUGES.items()}
        self._planning = Histogram(
            "dwise_planning_seconds", "Planning per round", labels, buckets=_SECONDS
        ).labels(*own)
        self._ratio = Histogram(
            "dwise_predicted_over_actual",
            "Predicted over actual rounds of finished requests",
            [*labels, "estimate"],
            buckets=_RATIOS,
        )
        self._own = own
        self._published: dict[str, float] = {}
        self._due = 0.0

    def publish(self, counts: Counts, core: Counters | None, force: bool = False) -> None:
        """Bring the registry up to date, if it is due or ``force``."""
        now = time.monotonic()
        if now < self._due and not force:
            return
        self._due = now + _EVERY_S
        for name, total in counts.totals(core).items():
            self._totals[name].inc(total - self._published.get(name, 0))
            self._published[name] = total
        for reason, total in counts.fallbacks.items():
            key = f"fallback {reason}"
            self._fallbacks.labels(*self._own, reason).inc(total - self._published.get(key, 0))
            self._published[key] = total
        for name, value in self._gauges.items():
            value.set(getattr(counts, name, counts.residents - counts.running))
        for seconds in counts.planning_s:
            self._planning.observe(seconds)
        for kind in ("admission", "refined"):
            for ratio in getattr(counts, f"{kind}_ratio"):
                self._ratio.labels(*self._own, kind).observe(ratio)
        counts.clear_unpublished()

    def ended(self, counts: Counts) -> None:
        """Publish ``counts`` a last time: the plugin no longer acts."""
        self._active.set(0)
        self.publish(counts, None, force=True)


_TOTALS = {
    "rounds": "Rounds",
    "prefill_only_rounds": "Rounds without an output block",
    "filled_slots": "Blocks processed",
    "refinements": "Estimates refined after the first denoising round",
    "preemptions": "Residents displaced",
    "zero_clamps": "Requests that outlived their estimate",
    "admission_blocked_cap": "Rounds in which the resident cap kept a request out",
    "admission_blocked_kv": "Rounds in which the KV reservation did",
}
_GAUGES = {
    "residents": "Requests that hold KV",
    "running": "Of these, in the last round",
    "paused": "Of these, not in the last round",
    "waiting": "Requests not yet admitted",
}
