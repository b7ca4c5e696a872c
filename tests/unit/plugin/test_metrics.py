"""What ``/metrics`` says once the plugin no longer acts."""

import pytest

from dwise_predict.plugin.activation import Activation
from dwise_predict.plugin.metrics import Counts, Exporter
from dwise_predict.plugin.settings import Settings

prometheus = pytest.importorskip("prometheus_client", reason="comes with SGLang")


def test_a_fault_is_seen_in_the_metrics():
    exporter = Exporter(Activation(Settings(mode="schedule", policy="fcfs"), slots=4), 0, 3)
    counts = Counts(rounds=7, planning_s=[0.1])
    exporter.publish(counts, None, force=True)
    assert counts.planning_s == []
    value = prometheus.REGISTRY.get_sample_value

    def active():
        (metric,) = (m for m in prometheus.REGISTRY.collect() if m.name == "dwise_active")
        (sample,) = metric.samples
        return sample.value

    assert active() == 1
    counts.rounds += 1
    counts.fallbacks["fault"] += 1
    exporter.ended(counts)
    assert active() == 0
    own = {"tp_rank": "0", "dp_rank": "3"}
    assert value("dwise_fallbacks_total", own | {"reason": "fault"}) == 1
    assert value("dwise_rounds_total", own) == 8
