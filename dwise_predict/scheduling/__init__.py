"""Which requests are resident and which blocks share a round; knows neither torch nor engines."""

from dwise_predict.scheduling.fcfs import FcfsScheduler
from dwise_predict.scheduling.protocol import Plan, Scheduler, plan_faults
from dwise_predict.scheduling.state import (
    Arrived,
    DenoisingRoundProcessed,
    Event,
    Finished,
    PromptBlockProcessed,
    RequestState,
    Residency,
)

__all__ = [
    "Arrived",
    "DenoisingRoundProcessed",
    "Event",
    "FcfsScheduler",
    "Finished",
    "Plan",
    "PromptBlockProcessed",
    "RequestState",
    "Residency",
    "Scheduler",
    "plan_faults",
]
