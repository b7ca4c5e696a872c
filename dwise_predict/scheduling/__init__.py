"""Which requests are resident and which blocks share a round; knows neither torch nor engines."""

from dwise_predict.scheduling.build import FormerName, build_scheduler, fcfs_scheduler
from dwise_predict.scheduling.cost import RoundCost
from dwise_predict.scheduling.formers import Counters, LeanFill
from dwise_predict.scheduling.policies import Policy
from dwise_predict.scheduling.policies.registry import POLICIES, make_policy
from dwise_predict.scheduling.protocol import Plan, Scheduler, plan_faults
from dwise_predict.scheduling.residency import ResidencyLimits
from dwise_predict.scheduling.round_scheduler import RoundScheduler
from dwise_predict.scheduling.state import (
    Arrived,
    Estimated,
    Event,
    Finished,
    RequestState,
    Residency,
    RoundProcessed,
)

__all__ = [
    "POLICIES",
    "Arrived",
    "Counters",
    "Estimated",
    "Event",
    "Finished",
    "FormerName",
    "LeanFill",
    "Plan",
    "Policy",
    "RequestState",
    "Residency",
    "ResidencyLimits",
    "RoundCost",
    "RoundProcessed",
    "RoundScheduler",
    "Scheduler",
    "build_scheduler",
    "fcfs_scheduler",
    "make_policy",
    "plan_faults",
]
