"""How long ``import dwise_predict`` and ``dwise --help`` take, against an empty Python.

Usage: python benchmarks/bench_startup.py [repetitions]
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "import dwise_predict": ["-c", "import dwise_predict"],
    "dwise --help": ["-c", "import sys; sys.argv[:] = ['dwise', '--help']; "
                     "from dwise_predict.cli.main import main; main()"],
}  # fmt: skip


def main(repetitions: int) -> None:
    """Run the commands in turn and print medians and their ratios to the empty Python."""
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(repetitions + 1):
        for name, arguments in COMMANDS.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
            seconds[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(times[1:]) for name, times in seconds.items()}
    empty = medians["python -c pass"]
    for name, median in medians.items():
        print(f"{name:<22} {median:6.3f} s  {median / empty:5.1f} x")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
