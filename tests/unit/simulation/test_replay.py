from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.bench_simulator import straightforward_replay
from dwise_predict.scheduling import ResidencyLimits, RoundCost
from dwise_predict.simulation.predictions import Predictions
from dwise_predict.simulation.replay import Replay, replay
from dwise_predict.simulation.run import Setup
from dwise_predict.simulation.workload import SimulatedWorkload

COST = RoundCost(10.0, 1.0, 0.1)
BLOCK = 4


def workload(
    prompts: list[int], blocks: list[tuple[int, ...]], chunk: int | None = 1
) -> SimulatedWorkload:
    n = len(prompts)
    return SimulatedWorkload(
        block_size=BLOCK,
        request_ids=tuple(f"r{i:02}" for i in range(n)),
        categories=("any",) * n,
        prompt_tokens=np.array(prompts),
        output_tokens=np.full(n, 4),
        budget_tokens=np.full(n, 16),
        rounds_per_block=tuple(blocks),
        prefill_chunk=chunk,
    )


def served(
    requests: SimulatedWorkload,
    setup: Setup,
    slots: int = 2,
    arrival_s: list[float] | None = None,
    cost: RoundCost = COST,
) -> Replay:
    limits = ResidencyLimits(slots, BLOCK)
    arrivals = np.zeros(len(requests)) if arrival_s is None else np.array(arrival_s)
    told = Predictions(requests.rounds.astype(np.float64))
    return replay(requests, arrivals, told, setup.scheduler(limits, cost), cost)


FCFS, DWISE = Setup("fcfs", "prefill_first"), Setup("dwise", "mixed_phase")


def test_two_requests_by_hand() -> None:
    """r00: two prompt blocks, blocks of 1 and 2 rounds. r01: no prompt block, 1 round."""
    run = served(workload([9, 2], [(1, 2), (1,)]), FCFS)
    # Prompt, prompt (4 cached), both denoise (8 cached), r00 alone twice (12 cached).
    assert run.slots.tolist() == [1, 1, 2, 1, 1]
    assert run.prefill_slots.tolist() == [1, 1, 0, 0, 0]
    assert run.kv_tokens.tolist() == [0, 4, 8, 12, 12]
    assert run.round_ms.tolist() == pytest.approx([11.0, 11.4, 12.8, 12.2, 12.2])
    assert run.first_round_s.tolist() == pytest.approx([0.0352, 0.0352])
    assert run.first_block_s.tolist() == pytest.approx([0.0352, 0.0352])
    assert run.finished_s.tolist() == pytest.approx([0.0596, 0.0352])
    assert run.residents.tolist() == [2, 2, 2, 1, 1]


def test_mixed_rounds_save_one() -> None:
    run = served(workload([9, 2], [(1, 2), (1,)]), DWISE)
    assert run.slots.tolist() == [2, 1, 1, 1, 1]
    assert run.finished_s[1] == pytest.approx(0.012)


def test_time_passes_until_the_next_arrival() -> None:
    run = served(workload([0, 0], [(1,), (1,)]), FCFS, arrival_s=[5.0, 1.0])
    assert run.admitted_s.tolist() == [5.0, 1.0]
    assert run.round_start_s.tolist() == [1.0, 5.0]


def test_a_chunk_takes_one_place_costs_its_blocks_and_reads_the_cache_once() -> None:
    run = served(workload([5 * BLOCK], [(1,)], chunk=2), FCFS)
    assert run.slots.tolist() == [1, 1, 1, 1]
    assert run.prefill_slots.tolist() == [1, 1, 1, 0]
    assert run.kv_tokens.tolist() == [0, 8, 16, 20]
    assert run.round_ms.tolist() == pytest.approx([12.0, 12.8, 12.6, 13.0])


def test_a_whole_prompt_takes_one_round() -> None:
    run = served(workload([5 * BLOCK, 0], [(1,), (1,)], chunk=None), FCFS)
    assert run.slots.tolist() == [1, 2]
    assert run.round_ms.tolist() == pytest.approx([15.0, 14.0])
    requests = workload([5 * BLOCK, 3, 0], [(1,)] * 3, chunk=None)
    assert requests.prefill_rounds.tolist() == [1, 1, 0]


def test_the_scheduler_counts_chunks() -> None:
    """One chunk of four blocks goes before two prompt blocks, though it is longer."""
    requests = workload([4 * BLOCK, 0], [(1,), (2,)], chunk=4)
    run = served(requests, DWISE, slots=1)
    assert run.finished_s[0] < run.finished_s[1]
    run = served(replace(requests, prefill_chunk=1), DWISE, slots=1)
    assert run.finished_s[1] < run.finished_s[0]


def test_a_chunk_has_a_block() -> None:
    with pytest.raises(ValueError, match="prefill_chunk must be at least 1, not 0"):
        workload([4], [(1,)], chunk=0)


workloads = st.lists(
    st.tuples(
        st.integers(0, 20),
        st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple),
        st.integers(0, 10),
        st.floats(0, 12),
        st.floats(0, 12),
    ),
    min_size=1,
    max_size=10,
)


@settings(deadline=None)
@given(workloads, st.integers(1, 4), st.booleans(), st.booleans())
def test_ends_every_request_when_a_straightforward_replay_does(
    rows: list[tuple[int, tuple[int, ...], int, float, float]],
    slots: int,
    ranked: bool,
    refine: bool,
) -> None:
    prompts, blocks, arrival, admission, refined = zip(*rows, strict=True)
    requests = workload(list(prompts), list(blocks))
    arrivals = np.array(arrival) / 100
    told = Predictions(np.array(admission), np.array(refined) if refine else None)
    limits = ResidencyLimits(slots, BLOCK, multiplier=10)
    setup = DWISE if ranked else FCFS
    ours = replay(requests, arrivals, told, setup.scheduler(limits, COST), COST)
    finished, rounds = straightforward_replay(requests, arrivals, told, ranked, slots, 10, COST)
    assert ours.finished_s.tolist() == finished.tolist()
    assert len(ours.slots) == rounds


@settings(deadline=None)
@given(workloads, st.integers(1, 4), st.sampled_from([1, 2, 3, None]), st.booleans())
def test_every_block_is_processed_once(
    rows: list[tuple[int, tuple[int, ...], int, float, float]],
    slots: int,
    chunk: int | None,
    ranked: bool,
) -> None:
    prompts, blocks, arrival, _, _ = zip(*rows, strict=True)
    requests = workload(list(prompts), list(blocks), chunk)
    only_slots = RoundCost(0.0, 1.0, 0.0)
    run = served(requests, DWISE if ranked else FCFS, slots, [a / 100 for a in arrival], only_slots)
    assert run.slots.sum() == requests.prefill_rounds.sum() + requests.rounds.sum()
    assert run.prefill_slots.sum() == requests.prefill_rounds.sum()
    # One ms a block, chunked or not.
    assert run.round_ms.sum() == pytest.approx(requests.prompt_blocks.sum() + requests.rounds.sum())
    assert run.slots.max() <= slots


def test_the_same_replay_gives_the_same_times() -> None:
    requests = workload([9, 30, 2, 17], [(1, 2), (3,), (1,), (2, 2, 2)])
    first, second = (served(requests, DWISE) for _ in range(2))
    for field in fields(Replay):
        a, b = getattr(first, field.name), getattr(second, field.name)
        assert np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b


def test_rounds_are_reported_as_they_run() -> None:
    seen: list[tuple[list[int], list[bool]]] = []
    requests = workload([9, 2], [(1, 2), (1,)])
    told = Predictions(requests.rounds.astype(np.float64))
    scheduler = FCFS.scheduler(ResidencyLimits(2, BLOCK), COST)
    replay(requests, np.zeros(2), told, scheduler, COST, on_round=lambda *args: seen.append(args))
    assert [(sorted(requests), sum(prompt)) for requests, prompt in seen] == [
        ([0], 1), ([0], 1), ([0, 1], 0), ([0], 0), ([0], 0),
    ]  # fmt: skip
