"""A small asyncio server that schedules by remaining work: python examples/own_scheduler.py"""

from __future__ import annotations

import asyncio
import time

import numpy as np
from tiny_engine import Row, TinyEngine

from dwise_predict import PredictorBundle
from dwise_predict.engines.protocol import EngineRequest
from dwise_predict.scheduling import (
    Arrived,
    Estimated,
    Event,
    Finished,
    FormerName,
    ResidencyLimits,
    RoundProcessed,
    build_scheduler,
    make_policy,
)
from dwise_predict.workload.builtin import builtin_workload
from dwise_predict.workload.schema import Request, newline_count, word_count

SLOTS, KV_TOKENS, BUDGET = 16, 40_000, 256


# --8<-- [start:server]
class Server:
    """One task runs rounds; any number of clients await :meth:`generate`."""

    def __init__(self, policy: str, former: FormerName) -> None:
        self.engine, self.bundle = TinyEngine(KV_TOKENS), PredictorBundle.from_pretrained("tiny")
        self.bundle.require(self.engine.inner.fingerprint)  # trained for what is served?
        limits = ResidencyLimits(SLOTS, self.engine.block_size, kv_tokens=KV_TOKENS)
        self.scheduler = build_scheduler(make_policy(policy), former, limits)
        self.requests: dict[str, EngineRequest] = {}
        self.answers: dict[str, asyncio.Future[str]] = {}
        self.events: list[Event] = []
        self.rounds, self.arrived = 0, asyncio.Event()

    async def generate(self, request: Request) -> str:
        """Queue a request and wait for its answer."""
        name, ids = request.request_id, tuple(self.engine.inner.encode(request.messages))
        blocks = len(ids) // self.engine.block_size
        rounds = self.bundle.admission.rounds(
            words=word_count(request.text),
            newlines=newline_count(request.text),
            prompt_tokens=len(ids),
        )
        self.requests[name] = EngineRequest(name, ids, BUDGET)
        self.answers[name] = asyncio.get_running_loop().create_future()
        self.events.append(Arrived(name, time.monotonic(), len(ids), blocks, BUDGET, rounds))
        self.arrived.set()
        return await self.answers[name]

    async def run(self) -> None:
        """Observe, plan, carry the plan out; for ever."""
        while True:
            self.arrived.clear()
            events, self.events = self.events, []
            self.scheduler.observe(events)
            plan = self.scheduler.plan(time.monotonic())
            for name in plan.admit:
                self.engine.open(self.requests.pop(name))
            if plan.run:
                rows = await asyncio.to_thread(self.engine.step, plan.run)
                self.events.extend(self.happened(rows))
                self.rounds += 1
            else:
                await self.arrived.wait()

    def happened(self, rows: list[Row]) -> list[Event]:
        """Events of a round; requests in their first denoising round are refined in one batch."""
        events: list[Event] = [
            RoundProcessed(
                prompt=[row.request_id for row in rows if row.prompt_block],
                denoised=[row.request_id for row in rows if not row.prompt_block],
                committed=[row.request_id for row in rows if row.block_done],
            )
        ]
        for row in rows:
            if row.answer is not None:
                events.append(Finished(row.request_id))
                self.answers.pop(row.request_id).set_result(row.answer)
        first = [row for row in rows if row.hidden_mean is not None and row.answer is None]
        if first:
            tokens = [self.scheduler.state(row.request_id).prompt_tokens for row in first]
            hidden = np.stack([row.hidden_mean for row in first])
            remaining = self.bundle.refiner(hidden, np.array(tokens), np.full(len(first), BUDGET))
            for row, rounds in zip(first, remaining.mean().tolist(), strict=True):
                events.append(Estimated(row.request_id, rounds))
        return events


# --8<-- [end:server]


async def serve(policy: str, former: FormerName, requests: list[Request]) -> list[str]:
    """Ask everything at once and print how long the answers took."""
    server, took, started = Server(policy, former), [], time.monotonic()

    async def client(request: Request) -> str:
        answer = await server.generate(request)
        took.append(time.monotonic() - started)
        return answer

    answering = asyncio.gather(*map(client, requests))
    running = asyncio.create_task(server.run())
    await asyncio.wait([answering, running], return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        running.result()  # it only ends by an error
    running.cancel()
    mean, median = np.mean(took), np.median(took)
    print(f"{policy:5} {server.rounds} rounds, latency mean {mean:.2f} s, median {median:.2f} s")
    return answering.result()


async def main() -> None:
    """The same requests first come first served and by remaining work."""
    requests = builtin_workload(0, 64, seed=2)
    fcfs = await serve("fcfs", "prefill_first", requests)
    dwise = await serve("dwise", "mixed_phase", requests)
    print("the same answers:", fcfs == dwise)


if __name__ == "__main__":
    asyncio.run(main())
