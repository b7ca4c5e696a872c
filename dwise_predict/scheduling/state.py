"""What a scheduler knows about a request, and the events that change it.

Schedulers never see tokens, tensors or an engine's own objects: only these events. The same
scheduler object can therefore decide in the built-in engine, in a simulator and in SGLang.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Arrived(NamedTuple):
    """A request entered the waiting set.

    ``estimate`` is what the policy's predictor says at admission, in the unit of the policy:
    total denoising rounds (``dwise``, ``oracle``), output tokens (``ssjf``, ``s3``, ``trail``) or
    a rank score (``ltr``). Policies without a predictor ignore it. Whoever is of a smaller ``tier``
    goes before all of a larger one, whatever the policy says.
    """

    request_id: str
    arrival_s: float
    prompt_tokens: int
    prompt_blocks: int
    budget_tokens: int
    estimate: float = 0.0
    tier: int = 0


class RoundProcessed(NamedTuple):
    """What the slots of the last round did, by request id.

    ``prompt`` names a request for each prompt block that was processed (or found in a prefix
    cache); ``denoised`` those whose output block had a denoising round, committing forward
    included; ``committed`` those of ``denoised`` whose block was done with it.
    """

    prompt: Sequence[str] = ()
    denoised: Sequence[str] = ()
    committed: Sequence[str] = ()


class Estimated(NamedTuple):
    """A new estimate of what the request still needs *after* its last processed block.

    For ``dwise`` this is the refinement: ``remaining`` denoising rounds. ``residual`` is optional
    and lets the estimate follow the rounds done since (:mod:`.policies.dwise`): entry t is the
    index of the request when t further rounds have not finished it, for example its mean
    residual or its Gittins index; beyond the end the last entry holds.
    """

    request_id: str
    remaining: float
    residual: Sequence[float] | None = None


class Finished(NamedTuple):
    """The request left the engine (completed or aborted, resident or waiting); its KV is free."""

    request_id: str


Event = Arrived | RoundProcessed | Estimated | Finished


class Residency(Enum):
    """Where a request is. Residents are running (chosen for rounds) or paused (KV kept)."""

    WAITING = "waiting"
    RUNNING = "running"
    PAUSED = "paused"


Key = tuple[int, float, tuple[float, str], "RequestState"]
"""Order of service, smallest first: class, priority, arrival and request id; and whose it is.

The class is twice the tier, and one less for requests that are overdue. Request ids differ, so that
requests themselves are never compared.
"""


@dataclass(slots=True, kw_only=True, eq=False)
class RequestState:
    """One request in the system, as a scheduler keeps it.

    ``prefill_left`` counts unprocessed prompt blocks (P of the paper), ``rounds`` the denoising
    rounds so far. ``estimate`` was made when the request had done ``estimated_at`` denoising
    rounds, ``first_estimate`` at its arrival; the last output block was committed when it had done
    ``committed_at``. ``rank_class`` and ``seniority`` are parts of its key. ``arrived_round`` and
    ``arrived_prompt_blocks`` are the scheduler's counters at arrival.
    """

    prompt_tokens: int
    prompt_blocks: int
    budget_tokens: int
    # What nearly every round reads or writes comes next: it shares cache lines.
    request_id: str
    arrival_s: float
    estimate: float
    prefill_left: int
    rounds: int = 0
    estimated_at: int = 0
    residency: Residency = Residency.WAITING
    committed_at: int = 0
    overdue: bool = False
    rank_class: int = 0
    seniority: tuple[float, str] = (0.0, "")
    key: Key | None = None
    arrived_round: int = 0
    arrived_prompt_blocks: int = 0
    first_estimate: float = 0.0
    residual: Sequence[float] | None = None
    deadline: float = float("inf")
    reached_zero: bool = False

    @property
    def mid_block(self) -> bool:
        """Whether its output block is begun and not committed."""
        return self.rounds > self.committed_at

    @property
    def attained(self) -> int:
        """Blocks processed so far, prompt and output: the service the request has had."""
        return self.prompt_blocks - self.prefill_left + self.rounds
