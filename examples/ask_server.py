"""Ask a running SGLang server many things at once: python examples/ask_server.py [URL] [N]

Sends N prompts of the embedded model's workload, then prints latencies and what the plugin says.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from dwise_predict.workload.builtin import builtin_workload
from dwise_predict.workload.schema import Request

url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:30000"
count = int(sys.argv[2]) if len(sys.argv) > 2 else 64


def ask(request: Request) -> tuple[float, str]:
    """Seconds and answer of one chat."""
    messages = [message.model_dump() for message in request.messages]
    body = {"model": "tiny", "messages": messages, "temperature": 0, "max_tokens": 256}
    post = urllib.request.Request(
        f"{url}/v1/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    started = time.monotonic()
    with urllib.request.urlopen(post, timeout=600) as answer:
        text = json.load(answer)["choices"][0]["message"]["content"]
    return time.monotonic() - started, text


deadline = time.monotonic() + 300
while True:  # a server takes a while to start
    try:
        urllib.request.urlopen(f"{url}/health", timeout=60).close()
        break
    except OSError:
        if time.monotonic() > deadline:
            raise
        time.sleep(1)

requests = builtin_workload(0, count, seed=4)
with ThreadPoolExecutor(count) as pool:
    answers = list(pool.map(ask, requests))
seconds = np.array([took for took, _ in answers])
print(f"{count} answers, latency mean {seconds.mean():.2f} s, p50 {np.median(seconds):.2f} s")
print(f"{requests[0].text!r} -> {answers[0][1]!r}")

with urllib.request.urlopen(f"{url}/server_info", timeout=60) as answer:
    (said,) = [state["dwise"] for state in json.load(answer)["internal_states"]]
for key in ("mode", "policy", "bundle", "rounds", "filled_slots", "refinements", "preemptions"):
    print(f"{key:12} {said[key]}")
