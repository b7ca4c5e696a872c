"""HRRN: highest response ratio next, as SGLang has it against starvation."""

from __future__ import annotations

from dataclasses import dataclass

from dwise_predict.scheduling.policies.base import Clock, Policy
from dwise_predict.scheduling.state import RequestState


@dataclass(frozen=True)
class Hrrn(Policy):
    """Highest response ratio next with token-based aging (``_sort_by_hrrn`` of SGLang 0.5.20).

    The ratio is the number of prompt blocks that the engine has processed since the request
    arrived, over the request's own unprocessed prompt blocks. SGLang counts tokens, which is the
    same up to rounding. Requests without a whole prompt block left go first. It knows nothing
    of denoising. (SGLang itself does not pass the counter on its dLLM path, where ``hrrn``
    therefore orders by request id; this is the policy as meant.)
    """

    time_dependent = True

    def priority(self, state: RequestState, clock: Clock) -> float:
        """Minus the response ratio."""
        if state.prefill_left == 0:
            return float("-inf")
        return -(clock.prompt_blocks - state.arrived_prompt_blocks) / state.prefill_left
