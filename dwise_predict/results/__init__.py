"""What serving a workload came to: the same three files whoever served it."""

from dwise_predict.results.records import (
    REQUESTS_SCHEMA,
    ROUNDS_SCHEMA,
    Summary,
    requests_table,
)
from dwise_predict.results.store import Results, read_results, write_results
from dwise_predict.results.summary import Conditions, summarise

__all__ = [
    "REQUESTS_SCHEMA",
    "ROUNDS_SCHEMA",
    "Conditions",
    "Results",
    "Summary",
    "read_results",
    "requests_table",
    "summarise",
    "write_results",
]
