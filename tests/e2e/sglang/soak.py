"""Random requests, aborts and pressure; nothing may leak or be lost.

On one in-process scheduler, where a request is aborted in just the state drawn for it, and on an
HTTP server, whose clients go away as well. ``python -m tests.e2e.sglang.soak engine 2000`` and
``… http 2000`` are the long runs; short ones are tests.
"""

import os
import random
import sys
import tempfile
import time
import urllib.error
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dwise_predict.engines.protocol import EngineRequest
from tests.e2e.sglang import environment

MASK = 1
STATES = ("waiting", "running", "mid-block", "paused", "paused mid-block")


def prompts(rng, count, large=(900, 1700, 5000)):
    """Ids, tokens and budgets: ordinary, short, with the mask id, sharing a prefix, ``large``.

    Budgets of 5,000 are over the whole pool of 2,048 tokens, and so are a few prompts.
    """
    shared = [rng.randrange(2, 500) for _ in range(64)]
    for i in range(count):
        kind = i % 7
        ids = [rng.randrange(2, 500) for _ in range(rng.randrange(1, 90))]
        budget = rng.randrange(1, 64)
        if kind == 1:
            ids = ids[: rng.randrange(1, 16)]
        elif kind == 2:
            ids[rng.randrange(len(ids))] = MASK
        elif kind == 3:
            budget = 1
        elif kind == 4:
            ids = shared[: rng.choice((48, 64))] + ids[: rng.randrange(0, 8)]
        elif kind == 5 and i % 21 == 5:
            budget = rng.choice(large)
        elif kind == 6 and i % 21 == 6:
            ids = [rng.randrange(2, 500) for _ in range(2035)]
        yield f"r{i:05}", ids, budget


def soak(engine, count, seed, abort_share=0.4):
    """Serve ``count`` requests, arriving and aborted at random; returns what became of them."""
    rng = random.Random(seed)
    scheduler = engine.scheduler
    coming = list(prompts(rng, count))
    doomed = {
        request_id: rng.choice(STATES) for request_id, *_ in coming if rng.random() < abort_share
    }
    seen = Counter()
    aborted = {}
    idle = steps = 0
    while coming or idle < 3:
        for request_id, ids, budget in coming[-rng.randrange(0, 6) :] if coming else ():
            # SGLang leaves a priority aside without --enable-priority-scheduling.
            priority = rng.choice((None, -3, 0, 7))
            engine.submit(request_id, ids, budget, priority=priority)
            coming.pop()
        for request_id in [i for i in doomed if i in engine.requests]:
            request = engine.requests[request_id]
            if request.finished():
                del doomed[request_id]
            elif _state(scheduler, request) == doomed[request_id] and rng.random() < 0.3:
                seen[doomed.pop(request_id)] += 1
                aborted[request_id] = request
                engine.abort(request_id)
        batch = engine.step()
        idle = 0 if batch is not None or coming else idle + 1
        if batch is None and not coming:
            scheduler.on_idle()
        steps += 1
        assert steps < 5_000 + 40 * count, "requests are stuck"
    unfinished = [
        request_id
        for request_id, request in engine.requests.items()
        if not request.finished() and request_id not in aborted
    ]
    assert unfinished == [], unfinished
    refused = [
        request_id
        for request_id, request in engine.requests.items()
        if request.finished() and request.finished_reason.to_json()["type"] == "abort"
    ]
    engine.assert_drained()
    return {"aborted": dict(seen), "refused": len(refused), "served": len(engine.requests)}


def _state(scheduler, request):
    if request in scheduler.waiting_queue:
        return "waiting"
    if request.dllm_incomplete_ids:
        ran = scheduler.last_batch is not None and request in scheduler.last_batch.reqs
        return "mid-block" if ran else "paused mid-block"
    ran = scheduler.last_batch is not None and request in scheduler.last_batch.reqs
    return "running" if ran else "paused"


FATES = ("answer", "answer", "answer", "abort", "leave", "leave after a block")


def soak_http(server, count, seed, clients=64):
    """As :func:`soak` through HTTP, from ``clients`` at a time; returns what became of requests.

    Clients wait for their answer, abort it, or close the connection: after a time, which may be
    before admission or in the middle of a block, or when the first tokens have come.
    """
    rng = random.Random(seed)
    asked = [
        (
            EngineRequest(f"s{seed}-{request_id}", tuple(ids), budget),
            rng.choice(FATES),
            rng.random(),
        )
        # Clients are few: none may hold one for the hundreds of rounds that 1,700 tokens take.
        for request_id, ids, budget in prompts(rng, count, large=(400,))
    ]
    with ThreadPoolExecutor(clients) as pool:
        ends = list(pool.map(lambda one: _through_http(server, *one), asked))
    for (request, fate, _), end in zip(asked, ends, strict=True):
        assert end in _POSSIBLE[fate], (request.request_id, fate, end)
    until = time.monotonic() + 60
    while any(s["residents"] or s["waiting"] for s in server.dwise()):
        assert time.monotonic() < until, "requests that nobody waits for are still served"
        time.sleep(0.1)
    time.sleep(2)  # SGLang checks its memory when idle, and ends itself if some is missing
    assert server.alive(), server.log.read_text()[-3000:]
    return Counter(zip((fate for _, fate, _ in asked), ends, strict=True))


_POSSIBLE = {
    # A prompt over the whole pool is refused at once.
    "answer": ("answered", "refused"),
    "abort": ("answered", "refused", "aborted"),
    "leave": ("answered", "refused", "left"),
    "leave after a block": ("left", "refused"),
}


def _through_http(server, request, fate, share):
    """Ask for one request; what became of it."""
    if fate == "leave after a block":
        try:
            server.leave_after_first_block(request)
        except urllib.error.HTTPError:
            return "refused"
        return "left"
    if fate == "abort":
        with ThreadPoolExecutor(1) as other:
            answer = other.submit(server.generate, request, 3600)
            time.sleep(share)
            server.abort(request.request_id)
            answer = answer.result()
    else:
        # Long requests wait while shorter ones keep coming: nobody's answer may be given up here.
        answer = server.generate(request, 0.02 + share if fate == "leave" else 3600)
    if isinstance(answer, list):
        assert 0 < len(answer) <= request.budget_tokens
        return "answered"
    if answer is None:
        return "aborted" if fate == "abort" else "left"
    assert answer == 400
    return "refused"


def main():
    environment.prepare()
    os.environ["DWISE_BUNDLE"] = "tiny"
    kind, count = sys.argv[1], int(sys.argv[2])
    run = {"engine": engine_soak, "http": http_soak}[kind]
    for radix in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            print(kind, "with prefix cache" if radix else "without prefix cache", flush=True)
            print(*run(count, radix, Path(folder)), sep="\n", flush=True)


def engine_soak(count, radix, folder):
    """What became of requests, and what the plugin says, after :func:`soak`."""
    from tests.e2e.sglang.inprocess import Engine, Setting, shut_down
    from tests.e2e.sglang.workloads import TINY

    engine = Engine(Setting(TINY, kv_tokens=2048, radix=radix), folder)
    seen, said = soak(engine, count, seed=int(radix)), engine.internal_state()["dwise"]
    shut_down()
    return seen, said


def http_soak(count, radix, folder):
    """The same after :func:`soak_http`."""
    from tests.e2e.sglang.inprocess import Setting
    from tests.e2e.sglang.server import Server
    from tests.e2e.sglang.workloads import TINY

    setting = Setting(TINY, kv_tokens=2048, radix=radix)
    with Server(setting, folder, {"DWISE_BUNDLE": "tiny", "DWISE_STRICT": "1"}) as server:
        seen = soak_http(server, count, seed=int(radix))
        return {f"{fate}: {end}": n for (fate, end), n in sorted(seen.items())}, *server.dwise()


if __name__ == "__main__":
    main()
