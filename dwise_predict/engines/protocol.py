"""What profiling and benchmarks need of an engine, and what an engine reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from dwise_predict.fingerprint import Fingerprint
from dwise_predict.recipe import EngineSettings
from dwise_predict.scheduling import Scheduler
from dwise_predict.workload.schema import Message

FinishReason = Literal["eos", "budget", "abort"]


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """One tokenised prompt. ``arrival_s`` counts from the start of :meth:`Engine.serve`.

    ``estimate`` is what the scheduler is told at arrival, in the unit of its policy
    (:class:`~dwise_predict.scheduling.Arrived`).
    """

    request_id: str
    prompt_ids: tuple[int, ...]
    budget_tokens: int
    arrival_s: float = 0.0
    estimate: float = 0.0


@dataclass(frozen=True, slots=True)
class Refinement:
    """What a request still needs after its first denoising round.

    ``remaining`` and ``residual`` as in :class:`~dwise_predict.scheduling.Estimated`.
    """

    remaining: float
    residual: Sequence[float] | None = None


class Refine(Protocol):
    """Refines the estimates of requests from their first denoising round."""

    def __call__(
        self, hidden_means: npt.NDArray[np.float16], requests: Sequence[EngineRequest]
    ) -> Sequence[Refinement]:
        """One answer for each of n requests that have just had their first denoising round.

        ``hidden_means`` are float16 [n, hidden], as in :class:`ServedRequest`.
        """
        ...


@dataclass(frozen=True, slots=True)
class RoundHidden:
    """What one round says of its n requests, each with one block in it.

    ``prefilling`` marks whole prompt blocks. ``rounds`` are the denoising rounds that a request
    had before this one, ``block_rounds`` those of them in its current output block, and
    ``output_tokens`` what it has committed. ``means`` are float16 [n, hidden]: means over the
    block's positions of the final normed hidden states.
    """

    requests: Sequence[EngineRequest]
    prefilling: Sequence[bool]
    rounds: Sequence[int]
    block_rounds: Sequence[int]
    output_tokens: Sequence[int]
    means: npt.NDArray[np.float16]


class Watch(Protocol):
    """Sees every round, and may estimate anew what requests in it still need."""

    def __call__(self, seen: RoundHidden) -> Mapping[str, Refinement]:
        """By request id, what is still needed after this round; requests left out stay as told."""
        ...


@dataclass(frozen=True, slots=True)
class ServedRequest:
    """What became of one request; times are seconds since the start of :meth:`Engine.serve`.

    ``output_ids`` end with the EOS token when ``finish_reason`` is "eos" and have
    ``budget_tokens`` tokens when it is "budget"; an EOS beyond the budget does not count.
    "abort" means that a block could not be resolved: the model keeps predicting the mask token.
    ``rounds_per_block`` counts the denoising rounds of each output block, the committing
    forward included. ``hidden_mean`` is float16 [hidden]: the mean over all positions of the
    block of the final normed hidden states in the first denoising round of the first output
    block. ``first_block_s`` is None when no output block was committed. ``refined`` is the
    remaining rounds that the scheduler was told after the first denoising round; None when it was
    told nothing, or the request ended in that round.
    """

    request_id: str
    output_ids: tuple[int, ...]
    finish_reason: FinishReason
    rounds_per_block: tuple[int, ...]
    first_block_masked: int
    arrival_s: float
    admitted_s: float
    first_round_s: float
    first_block_s: float | None
    finished_s: float
    hidden_mean: npt.NDArray[np.float16]
    refined: float | None = None


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """One round. ``kv_tokens`` are the cached tokens that its slots attended to."""

    index: int
    start_s: float
    wall_ms: float
    slots: int
    prefill_slots: int
    kv_tokens: int
    residents: int
    waiting: int


@dataclass(frozen=True, slots=True)
class ServeResult:
    """All served requests, in the order they were given, and all rounds."""

    requests: list[ServedRequest]
    rounds: list[RoundRecord]


class Engine(Protocol):
    """A model ready to serve."""

    fingerprint: Fingerprint
    settings: EngineSettings
    """As asked for, with automatic choices (device, threads) resolved."""

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of a chat with the chat template applied, generation prompt included."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids, special tokens left out."""
        ...

    def check(self, requests: Sequence[EngineRequest]) -> None:
        """Raise EngineError when ``requests`` cannot all be served; names those at fault."""
        ...

    def serve(
        self,
        requests: Sequence[EngineRequest],
        scheduler: Scheduler,
        on_finished: Callable[[ServedRequest], None] | None = None,
        kv_tokens: int | None = None,
        refine: Refine | None = None,
        watch: Watch | None = None,
    ) -> ServeResult:
        """Serve ``requests`` to their end, starting from an empty engine.

        ``on_finished`` is called as each request finishes. ``kv_tokens`` is the size of the KV
        cache. ``refine`` is asked once a round for all requests that had their first denoising
        round in it, ``watch`` instead of it in every round about all requests in it; the scheduler
        is told the answers before its next plan. Raises EngineError as :meth:`check` does, when
        the scheduler refuses a request or makes a plan that cannot be carried out, and when both
        are given or the engine cannot be watched.
        """
        ...
