"""Policies: one file each, all behind :class:`Policy`."""

from dwise_predict.scheduling.policies.base import Clock, Policy
from dwise_predict.scheduling.policies.dwise import Dwise, probe_index
from dwise_predict.scheduling.policies.fcfs import Fcfs
from dwise_predict.scheduling.policies.hrrn import Hrrn
from dwise_predict.scheduling.policies.ltr import Ltr
from dwise_predict.scheduling.policies.mlfq import Mlfq
from dwise_predict.scheduling.policies.s3 import S3
from dwise_predict.scheduling.policies.ssjf import Ssjf
from dwise_predict.scheduling.policies.trail import Trail

__all__ = [
    "S3",
    "Clock",
    "Dwise",
    "Fcfs",
    "Hrrn",
    "Ltr",
    "Mlfq",
    "Policy",
    "Ssjf",
    "Trail",
    "probe_index",
]
