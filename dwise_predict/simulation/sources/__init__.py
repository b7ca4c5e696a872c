"""Where simulated workloads come from."""

from dwise_predict.simulation.sources.profiled import Split, profile_source
from dwise_predict.simulation.sources.source import Source
from dwise_predict.simulation.sources.synthetic import (
    DEFAULT_MIX,
    SyntheticCategory,
    synthetic_source,
)
from dwise_predict.simulation.sources.traces import Trace, read_trace, trace_source

__all__ = [
    "DEFAULT_MIX",
    "Source",
    "Split",
    "SyntheticCategory",
    "Trace",
    "profile_source",
    "read_trace",
    "synthetic_source",
    "trace_source",
]
