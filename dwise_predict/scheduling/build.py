"""Schedulers from a policy and the name of a batch former."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

from dwise_predict.scheduling.formers import LeanFill, PrefillFirst, Ranked
from dwise_predict.scheduling.policies import Fcfs, Policy
from dwise_predict.scheduling.residency import ResidencyLimits
from dwise_predict.scheduling.round_scheduler import RoundScheduler
from dwise_predict.validation import unknown_name

FormerName = Literal["prefill_first", "mixed_phase", "single_phase"]


def build_scheduler(
    policy: Policy,
    former: FormerName,
    limits: ResidencyLimits,
    hysteresis: float = 0.0,
    held_rows: bool = False,
    lean: LeanFill | None = None,
) -> RoundScheduler:
    """A scheduler with ``former`` for batches.

    ``prefill_first`` (:class:`PrefillFirst`) is SGLang's: policies that never displace then have
    as many residents as slots and no reservations, whatever ``limits`` say. ``mixed_phase`` is
    Algorithm 1, ``single_phase`` the same with rounds of one phase (both :class:`Ranked`, which
    alone knows ``hysteresis`` and ``lean``). Raises ValueError for a former that does not exist or
    does not know an option that is given.
    """
    if former not in get_args(FormerName):
        raise ValueError(unknown_name("former", former, get_args(FormerName)))
    if former != "prefill_first":
        return RoundScheduler(policy, Ranked(limits, former == "mixed_phase", hysteresis, lean))
    if hysteresis or lean is not None:
        raise ValueError("prefill_first has neither hysteresis nor lean")
    if not policy.preemptive:
        limits = replace(limits, multiplier=1, kv_tokens=None)
    return RoundScheduler(policy, PrefillFirst(limits, held_rows))


def fcfs_scheduler(slots: int) -> RoundScheduler:
    """First come, first served with prefill priority: SGLang's default and the paper's baseline."""
    limits = ResidencyLimits(slots, block_size=1, multiplier=1)
    return RoundScheduler(Fcfs(), PrefillFirst(limits))
