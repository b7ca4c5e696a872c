"""What every slot of every round held, for pictures."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

IDLE, PROMPT, DENOISING = 0, 1, 2


class Timeline:
    """Records rounds; pass :meth:`record` to ``replay`` as ``on_round``."""

    def __init__(self) -> None:
        # Flat arrays: a replay may have a million rounds.
        self._requests = array("q")
        self._prompt = array("b")
        self._ends = array("q", [0])

    def __len__(self) -> int:
        return len(self._ends) - 1

    def record(self, requests: Sequence[int], prompt: Sequence[bool]) -> None:
        """Note the requests of the next round, and which of them process a prompt block."""
        self._requests.extend(requests)
        self._prompt.extend(prompt)
        self._ends.append(len(self._requests))

    def grid(
        self, start: int, stop: int, slots: int
    ) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int64]]:
        """Slots of the rounds from ``start`` up to ``stop``.

        A request keeps its slot from round to round; one that joins takes the first free slot.

        Returns:
            ``IDLE``, ``PROMPT`` or ``DENOISING``, int8 [slots, rounds], and the request in each
            slot, int64 [slots, rounds], -1 in idle ones.
        """
        columns = range(start, min(stop, len(self)))
        state = np.full((slots, len(columns)), IDLE, dtype=np.int8)
        held = np.full((slots, len(columns)), -1, dtype=np.int64)
        slot_of: dict[int, int] = {}
        for column, index in enumerate(columns):
            inside = slice(self._ends[index], self._ends[index + 1])
            requests, prompt = self._requests[inside], self._prompt[inside]
            running = set(requests)
            slot_of = {request: slot for request, slot in slot_of.items() if request in running}
            free = iter(sorted(set(range(slots)) - set(slot_of.values())))
            for request, is_prompt in zip(requests, prompt, strict=True):
                slot = slot_of[request] if request in slot_of else next(free)
                slot_of[request] = slot
                state[slot, column] = PROMPT if is_prompt else DENOISING
                held[slot, column] = request
        return state, held
