"""Where the round cost of the reference setups comes from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dwise_predict.scheduling import RoundCost
from dwise_predict.simulation.fitting import non_negative_least_squares
from dwise_predict.simulation.paper.runs import Run, arrivals_of, case_of, workload_of
from dwise_predict.simulation.replay import Replay

SGLANG_THROUGHPUT, SGLANG_PREFILL_ONLY_TIME, DWISE_THROUGHPUT = 3.90, 0.782, 8.02
"""Tables 2 and 3, LLaDA2.1-mini under burst."""
MEDIAN_ROUND_MS = 95.0
"""Section 6.3: DWISE's median round, burst+Poisson."""
MLFQ_THROUGHPUT = 4.13
"""Table 2."""


def derive_llada_cost() -> RoundCost:
    """Cost of LLaDA2.1-mini's rounds from five published figures.

    Under burst arrivals a schedule does not depend on time, so a replay counts rounds, slots and
    attended KV tokens under any cost. Published totals are then linear in the coefficients:
    SGLang's time in prefill-only rounds, its time in other rounds, DWISE's whole time, and DWISE's
    median round with the slots and KV tokens that the median round of the replay has. The sum of
    squared relative errors is minimised. SGLang's host work for each resident is what is then
    missing from MLFQ, which keeps eight times the residents, to its published throughput.
    """
    free = RoundCost(0.0, 0.0, 0.0)
    terms, totals_ms = [], []
    requests = len(workload_of("LLaDA2.1-mini", 0))
    sglang, dwise, mlfq = (
        Run("LLaDA2.1-mini", "burst", name) for name in ("SGLang", "DWISE", "MLFQ")
    )
    served = _replay(sglang, free)
    prefill_only = served.prefill_slots == served.slots
    total_ms = 1e3 * requests / SGLANG_THROUGHPUT
    for chosen, share in (
        (prefill_only, SGLANG_PREFILL_ONLY_TIME),
        (~prefill_only, 1 - SGLANG_PREFILL_ONLY_TIME),
    ):
        terms.append([chosen.sum(), served.slots[chosen].sum(), served.kv_tokens[chosen].sum()])
        totals_ms.append(share * total_ms)
    served = _replay(dwise, free)
    terms.append([len(served.slots), served.slots.sum(), served.kv_tokens.sum()])
    totals_ms.append(1e3 * requests / DWISE_THROUGHPUT)
    terms.append([1, float(np.median(served.slots)), float(np.median(served.kv_tokens))])
    totals_ms.append(MEDIAN_ROUND_MS)
    totals = np.array(totals_ms)
    relative = np.array(terms, dtype=np.float64) / totals[:, None]
    base, slot, kv = non_negative_least_squares(relative, np.ones(len(totals))).tolist()
    served = _replay(mlfq, replace(free, resident_ms=1.0))
    known = base * len(served.slots) + slot * served.slots.sum() + kv * served.kv_tokens.sum()
    missing = max(1e3 * requests / MLFQ_THROUGHPUT - known, 0.0)
    return RoundCost(base, slot, kv, float(missing / served.residents.sum()))


def _replay(run: Run, cost: RoundCost) -> Replay:
    case = replace(case_of(run), cost=cost)
    return case.serve(workload_of(run.model, run.seed), arrivals_of(run))
