"""Write prompts that the embedded model understands: python examples/make_prompts.py FILE [N]

A stand-in for a file of your own prompts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from dwise_predict.workload.builtin import builtin_workload

count = int(sys.argv[2]) if len(sys.argv) > 2 else 300
lines = []
for request in builtin_workload(0, count, seed=8):
    line = {"prompt": request.text, "category": request.category}
    lines.append(json.dumps(line if request.answer is None else line | {"answer": request.answer}))
Path(sys.argv[1]).write_text("\n".join(lines) + "\n", encoding="utf-8")
print(f"{len(lines)} prompts in {sys.argv[1]}")
