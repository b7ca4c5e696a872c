from __future__ import annotations

import pytest

from dwise_predict.scheduling import Plan, plan_faults


def test_residents_may_run_be_displaced_or_stay_paused() -> None:
    plan = Plan(admit=("C",), run=("A", "C"), pause=("B",))
    assert plan_faults(plan, waiting={"C", "D"}, residents={"A", "B"}, slots=2) == []


@pytest.mark.parametrize(
    ("plan", "fault"),
    [
        (Plan(admit=("X",), run=("A", "B", "X")), "do not wait"),
        (Plan(admit=("A",), run=("A", "B")), "do not wait"),
        (Plan(run=("A", "A", "B")), "run names a request twice"),
        (Plan(run=("A", "B"), pause=("B",)), "both runs and pauses"),
        (Plan(run=("A", "C")), "runs requests that are not resident: ['C']"),
        (Plan(run=("A",), pause=("D",)), "pauses requests that are not resident: ['D']"),
        (Plan(admit=("C",), run=("A", "B", "C")), "3 requests in 2 slots"),
    ],
)
def test_names_what_is_impossible(plan: Plan, fault: str) -> None:
    faults = plan_faults(plan, waiting={"C"}, residents={"A", "B"}, slots=2)
    assert any(fault in line for line in faults)
