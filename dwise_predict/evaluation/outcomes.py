"""What serving the workload looked like: rounds, parallelism, endings and right answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class Answers:
    """Checkable requests of one category."""

    right: int
    checked: int

    @property
    def share(self) -> float:
        """Right answers among the checked ones, 0 to 1."""
        return self.right / self.checked


@dataclass(frozen=True)
class Outcomes:
    """Figures of a set of served requests."""

    requests: int
    rounds_p10: float
    rounds_p50: float
    rounds_p90: float
    rounds_max: int
    tokens_per_round: float
    ended_by_eos: float
    answers: dict[str, Answers]


def outcomes(requests: pa.Table) -> Outcomes:
    """Summarise rows of a profile's ``requests`` table; at least one row is needed.

    ``tokens_per_round`` is committed output tokens over denoising rounds, both summed over all
    requests; ``answers`` has the categories with checkable requests, in the order they appear.
    """
    rounds = requests["rounds"].to_numpy()
    p10, p50, p90 = np.percentile(rounds, [10, 50, 90])
    eos = pc.sum(pc.equal(requests["finish_reason"], "eos")).as_py()
    return Outcomes(
        requests=requests.num_rows,
        rounds_p10=float(p10),
        rounds_p50=float(p50),
        rounds_p90=float(p90),
        rounds_max=int(rounds.max()),
        tokens_per_round=float(requests["output_tokens"].to_numpy().sum() / rounds.sum()),
        ended_by_eos=eos / requests.num_rows,
        answers=_answers(requests),
    )


def _answers(requests: pa.Table) -> dict[str, Answers]:
    counts: dict[str, list[int]] = {}
    categories = requests["category"].to_pylist()
    for category, correct in zip(categories, requests["answer_correct"].to_pylist(), strict=True):
        if correct is not None:
            right_checked = counts.setdefault(category, [0, 0])
            right_checked[0] += int(correct)
            right_checked[1] += 1
    return {category: Answers(right, checked) for category, (right, checked) in counts.items()}
