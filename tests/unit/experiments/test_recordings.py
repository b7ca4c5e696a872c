from __future__ import annotations

import numpy as np

from dwise_predict.baselines import RecordedRounds
from dwise_predict.experiments.estimates import REPEATED
from dwise_predict.experiments.recordings import block_starts


def test_a_block_starts_after_the_round_that_committed_one() -> None:
    """Two requests: blocks of 3 and 2 rounds, then one block of 2 rounds and one of a round."""
    rounds = RecordedRounds(
        request_ids=("a", "b"),
        counts=np.array([5, 3]),
        output_tokens=np.array([9, 7]),
        budget_tokens=np.array([16, 16]),
        committed=np.array([0, 0, 5, 5, 9, 0, 4, 7]),
        means=np.zeros((8, 2), np.float16),
    )
    assert block_starts(rounds).tolist() == [True, False, False, True, False, True, False, True]


def test_when_estimates_are_repeated() -> None:
    def rounds(kind: str) -> list[int]:
        due = REPEATED[kind]  # type: ignore[index]
        return [k for k in range(9) if due(k, k in (0, 3))]

    assert rounds("every block") == [0, 3]
    assert rounds("every 4 rounds") == [0, 4, 8]
    assert rounds("every round") == list(range(9))
