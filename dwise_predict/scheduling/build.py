"""Schedulers from a policy and the name of a batch former."""

from __future__ import annotations

from typing import Literal

from dwise_predict.scheduling.formers import PrefillFirst, Ranked
from dwise_predict.scheduling.policies import Fcfs, Policy
from dwise_predict.scheduling.residency import ResidencyLimits
from dwise_predict.scheduling.round_scheduler import RoundScheduler

FormerName = Literal["prefill_first", "mixed_phase"]


def build_scheduler(
    policy: Policy,
    former: FormerName,
    limits: ResidencyLimits,
    hysteresis: float = 0.0,
    held_rows: bool = False,
) -> RoundScheduler:
    """A scheduler with ``former`` for batches.

    ``prefill_first`` keeps as many residents as slots under policies that never displace
    (``held_rows``: see :class:`PrefillFirst`), and the residents of ``limits`` under preemptive
    ones. ``hysteresis`` concerns formers that displace.
    """
    if former == "mixed_phase":
        return RoundScheduler(policy, Ranked(limits, mixed=True, hysteresis=hysteresis))
    if policy.preemptive:
        return RoundScheduler(policy, Ranked(limits, mixed=False, hysteresis=hysteresis))
    return RoundScheduler(policy, PrefillFirst(limits.slots, held_rows))


def fcfs_scheduler(slots: int) -> RoundScheduler:
    """First come, first served with prefill priority: SGLang's default and the paper's baseline."""
    return RoundScheduler(Fcfs(), PrefillFirst(slots))
