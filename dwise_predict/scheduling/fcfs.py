"""First come, first served with prefill priority: what SGLang's dLLM path does by default."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from dwise_predict.scheduling.protocol import Plan
from dwise_predict.scheduling.state import Arrived, Event, Finished, RequestState, Residency, apply


class FcfsScheduler:
    """Baseline of the paper, after SGLang 0.5.20 (``srt/dllm/mixin/scheduler.py``, FDFO).

    Requests become residents in order of arrival while fewer than ``slots`` are resident, and
    stay until they finish. A round is either a prefill or a denoising round: as long as any
    resident has a prompt block left, only residents with prompt blocks run. Prompts shorter
    than a block have none and go straight to denoising.

    One difference: SGLang never schedules a newly admitted short prompt while as many
    residents hold a request slot as it counts allocatable ones, which can starve it for
    thousands of rounds. That is a fault and not reproduced here.
    """

    def __init__(self, slots: int) -> None:
        if slots < 1:
            raise ValueError(f"slots must be at least 1, not {slots}")
        self.slots = slots
        self._states: dict[str, RequestState] = {}
        self._waiting: deque[str] = deque()
        self._residents: dict[str, RequestState] = {}

    def observe(self, events: Iterable[Event]) -> None:
        """Update the queue and the residents."""
        for event in events:
            apply(self._states, event)
            if isinstance(event, Arrived):
                self._waiting.append(event.request_id)
            elif isinstance(event, Finished):
                del self._residents[event.request_id]

    def plan(self, now: float) -> Plan:
        """Fill free slots from the head of the queue, then run one phase."""
        admit = []
        while self._waiting and len(self._residents) < self.slots:
            request_id = self._waiting.popleft()
            self._residents[request_id] = self._states[request_id]
            admit.append(request_id)
        prefilling = any(state.prefill_left > 0 for state in self._residents.values())
        run: list[str] = []
        pause: list[str] = []
        for request_id, state in self._residents.items():
            runs = state.prefill_left > 0 or not prefilling
            state.residency = Residency.RUNNING if runs else Residency.PAUSED
            (run if runs else pause).append(request_id)
        return Plan(admit=tuple(admit), run=tuple(run), pause=tuple(pause))
