"""Batch formers: which requests share a round, given the order of a policy."""

from dwise_predict.scheduling.formers.base import BatchFormer, Counters
from dwise_predict.scheduling.formers.lean import LeanFill
from dwise_predict.scheduling.formers.prefill_first import PrefillFirst
from dwise_predict.scheduling.formers.ranked import Ranked

__all__ = ["BatchFormer", "Counters", "LeanFill", "PrefillFirst", "Ranked"]
