"""Who pays for another policy: python examples/who_waits.py RESULTS A B

RESULTS is the --out folder of ``dwise simulate``, A and B are runs in it. By category: the share of
requests that finish later under B than under A, and the longest latency under both.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from dwise_predict.results import read_results

folder, *names = sys.argv[1:]
a, b = (read_results(Path(folder) / name).requests for name in names)
assert a["request_id"] == b["request_id"]
categories = np.array(a["category"].to_pylist())
latency_a, latency_b = (t["finished_s"].to_numpy() - t["arrival_s"].to_numpy() for t in (a, b))

print(f"{'':22}requests  later   max {names[0]}   max {names[1]}")
for category in [*np.unique(categories), "all"]:
    mine = (categories == category) | (category == "all")
    later = (latency_b[mine] > latency_a[mine]).mean()
    longest = f"{latency_a[mine].max():10.2f} s {latency_b[mine].max():10.2f} s"
    print(f"{category:22}{mine.sum():8} {later:6.0%} {longest}")
