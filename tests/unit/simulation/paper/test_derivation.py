"""The constants of the setups are what the derivation finds."""

from __future__ import annotations

import pytest

from dwise_predict.simulation.paper.derivation import derive_llada_cost
from dwise_predict.simulation.paper.setups import LLADA_COST


def test_the_stored_cost_is_the_derived_one() -> None:
    derived = derive_llada_cost()
    assert derived.base_ms == pytest.approx(LLADA_COST.base_ms, rel=0.005)
    assert derived.slot_ms == pytest.approx(LLADA_COST.slot_ms, rel=0.005)
    assert derived.kv_ms == pytest.approx(LLADA_COST.kv_ms, rel=0.005)
    assert derived.resident_ms == pytest.approx(LLADA_COST.resident_ms, rel=0.02)
