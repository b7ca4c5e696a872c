"""Round-exact replay of a workload under a scheduler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dwise_predict.scheduling import (
    Arrived,
    Counters,
    Estimated,
    Event,
    Finished,
    RoundCost,
    RoundProcessed,
    RoundScheduler,
)
from dwise_predict.simulation.predictions import Predictions
from dwise_predict.simulation.workload import FloatArray, IntArray, SimulatedWorkload


@dataclass(frozen=True, slots=True)
class Replay:
    """Times in seconds by request, float64 [N], and one entry a round.

    ``slots`` are the requests in a round, whatever the size of their prompt chunks; ``kv_tokens``
    are the cached tokens that they attended to.
    """

    arrival_s: FloatArray
    admitted_s: FloatArray
    first_round_s: FloatArray
    first_block_s: FloatArray
    finished_s: FloatArray
    round_start_s: FloatArray
    round_ms: FloatArray
    slots: IntArray
    prefill_slots: IntArray
    kv_tokens: IntArray
    residents: IntArray
    waiting: IntArray
    counters: Counters


class _Job:
    """A request on its way through the replay."""

    __slots__ = (
        "block",
        "block_rounds",
        "blocks",
        "chunk",
        "index",
        "kv",
        "prefill_left",
        "rounds",
    )

    def __init__(
        self, index: int, blocks: tuple[int, ...], prefill: int, chunk: int | None
    ) -> None:
        self.index = index
        self.blocks = blocks
        self.prefill_left = prefill
        self.chunk = prefill if chunk is None else min(chunk, prefill)
        self.block = 0
        self.block_rounds = blocks[0]
        self.rounds = 0
        self.kv = 0


def replay(
    workload: SimulatedWorkload,
    arrival_s: FloatArray,
    predictions: Predictions,
    scheduler: RoundScheduler,
    cost: RoundCost,
    on_finished: Callable[[int], None] | None = None,
    on_round: Callable[[list[int], list[bool]], None] | None = None,
) -> Replay:
    """Serve ``workload`` as ``scheduler`` decides; every round takes what ``cost`` says.

    A chunk of a prompt is one prompt block to the scheduler. To the cost model its blocks count
    as slots, and they share one pass over the cached tokens before them.

    Args:
        workload: N requests.
        arrival_s: float64 [N]; requests that arrive together do so in the order of ``workload``.
        predictions: what the scheduler is told.
        scheduler: fresh.
        cost: round cost model.
        on_finished: called with the number of requests finished so far, for progress.
        on_round: called with the requests of each round, as indices into ``workload``, and
            whether each of them processes its prompt.

    Raises:
        RuntimeError: the scheduler runs nothing although nothing is still to come.
    """
    n, block_size = len(workload), workload.block_size
    prompt_blocks = workload.prompt_blocks.tolist()
    prefill_rounds = workload.prefill_rounds.tolist()
    prompt_tokens, budgets = workload.prompt_tokens.tolist(), workload.budget_tokens.tolist()
    ids, admission = workload.request_ids, predictions.admission.tolist()
    arrivals = np.asarray(arrival_s, dtype=np.float64)
    order = np.argsort(arrivals, kind="stable").tolist()
    at = arrivals.tolist()
    rounds_per_block, chunk = workload.rounds_per_block, workload.prefill_chunk
    jobs = {ids[i]: _Job(i, rounds_per_block[i], prompt_blocks[i], chunk) for i in range(n)}
    after_round = _after_round(ids, predictions)
    ask_every_round = predictions.reestimate is not None
    admitted, first_round, first_block, finished = ([float("nan")] * n for _ in range(4))
    rounds: list[tuple[float, float, int, int, int, int, int]] = []
    events: list[Event] = []
    now, coming, done, waiting, residents = 0.0, 0, 0, 0, 0
    while done < n:
        while coming < n and at[order[coming]] <= now:
            i = order[coming]
            coming, waiting = coming + 1, waiting + 1
            events.append(
                Arrived(
                    ids[i], at[i], prompt_tokens[i], prefill_rounds[i], budgets[i], admission[i]
                )
            )
        scheduler.observe(events)
        plan = scheduler.plan(now)
        for request_id in plan.admit:
            admitted[jobs[request_id].index] = now
        waiting, residents = waiting - len(plan.admit), residents + len(plan.admit)
        if not plan.run:
            events = []
            if coming == n:
                raise RuntimeError(
                    f"the scheduler runs nothing, with {residents} residents and {waiting} "
                    "waiting requests"
                )
            now = at[order[coming]]
            continue
        running = [jobs[request_id] for request_id in plan.run]
        slots = blocks = len(running)
        kv_blocks = prefill_slots = 0
        for job in running:
            kv_blocks += job.kv
            if job.prefill_left:
                prefill_slots += 1
                blocks += job.chunk - 1
        if on_round is not None:
            on_round([job.index for job in running], [job.prefill_left > 0 for job in running])
        kv_tokens = kv_blocks * block_size
        wall_ms = cost.round_ms(blocks, kv_tokens, residents)
        rounds.append((now, wall_ms, slots, prefill_slots, kv_tokens, residents, waiting))
        now += wall_ms / 1e3
        prompt: list[str] = []
        denoised: list[str] = []
        committed: list[str] = []
        events = [RoundProcessed(prompt, denoised, committed)]
        for request_id, job in zip(plan.run, running, strict=True):
            if job.prefill_left:
                job.prefill_left -= job.chunk
                job.kv += job.chunk
                job.chunk = min(job.chunk, job.prefill_left)
                prompt.append(request_id)
                continue
            denoised.append(request_id)
            job.rounds += 1
            job.block_rounds -= 1
            if job.rounds == 1:
                first_round[job.index] = now
            block_done = not job.block_rounds
            if block_done:
                committed.append(request_id)
                job.block += 1
                job.kv += 1
                if job.block == 1:
                    first_block[job.index] = now
                if job.block == len(job.blocks):
                    finished[job.index] = now
                    events.append(Finished(ids[job.index]))
                    done += 1
                    residents -= 1
                    if on_finished is not None:
                        on_finished(done)
                    continue
                job.block_rounds = job.blocks[job.block]
            if ask_every_round or job.rounds == 1:
                estimate = after_round(job.index, job.rounds, block_done)
                if estimate is not None:
                    events.append(estimate)
    scheduler.observe(events)
    start_s, round_ms, *counts = zip(*rounds, strict=True)
    filled, prefill, kv, resident, waited = (np.array(column, dtype=np.int64) for column in counts)
    return Replay(
        arrival_s=arrivals,
        admitted_s=np.array(admitted),
        first_round_s=np.array(first_round),
        first_block_s=np.array(first_block),
        finished_s=np.array(finished),
        round_start_s=np.array(start_s),
        round_ms=np.array(round_ms),
        slots=filled,
        prefill_slots=prefill,
        kv_tokens=kv,
        residents=resident,
        waiting=waited,
        counters=scheduler.counters,
    )


def _after_round(
    ids: tuple[str, ...], predictions: Predictions
) -> Callable[[int, int, bool], Estimated | None]:
    """What the scheduler is told after a denoising round."""
    if (ask := predictions.reestimate) is not None:

        def asked(index: int, rounds: int, block_done: bool) -> Estimated | None:
            remaining = ask(index, rounds, block_done)
            return None if remaining is None else Estimated(ids[index], remaining)

        return asked
    if predictions.refined is None:
        return lambda index, rounds, block_done: None
    refined, curves = predictions.refined.tolist(), predictions.curves

    def once(index: int, rounds: int, block_done: bool) -> Estimated:
        curve = None if curves is None else curves[index]
        return Estimated(ids[index], refined[index], curve)

    return once
