"""Kills ``dwise-train`` ten times at random moments, resumes it, and compares with a whole run.

Usage: python tests/soak/kill_resume.py [--kills 10] [--seed 0] [-- flags of dwise-train]

Each try gets a random part of the time that the undisturbed run took and goes on where the last
one got to, so that kills fall into every stage. A run that reaches its end is compared and the
next one starts anew, until all kills have happened.
"""

from __future__ import annotations

import argparse
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.runs import DWISE_TRAIN, same_result


def main(kills: int, seed: int, flags: list[str]) -> int:
    """Exit status 0 when the killed and resumed run equals the undisturbed one."""
    with tempfile.TemporaryDirectory(prefix="dwise-soak-") as folder:
        whole, killed = Path(folder) / "whole", Path(folder) / "killed"
        started = time.monotonic()
        subprocess.run([DWISE_TRAIN, *flags, "--out", whole], check=True)
        seconds = time.monotonic() - started
        rng = random.Random(seed)
        done, differences = 0, []
        while done < kills:
            limit = rng.uniform(0, 0.5 * seconds)
            done += _killed([DWISE_TRAIN, *flags, "--out", killed, "--resume"], limit)
            print(f"{done} of {kills} kills, this one after {limit:.1f} s", flush=True)
            if (killed / "report.html").exists():
                differences += same_result(killed, whole)
                shutil.rmtree(killed)
        subprocess.run([DWISE_TRAIN, *flags, "--out", killed, "--resume"], check=True)
        differences += same_result(killed, whole)
        print("different: " + ", ".join(differences) if differences else "the same result")
        return 1 if differences else 0


def _killed(command: list[str | Path], limit: float) -> bool:
    """Run a command for at most ``limit`` seconds; whether it had to be killed."""
    process = subprocess.Popen(command)
    try:
        status = process.wait(timeout=limit)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        return process.wait() == -signal.SIGKILL
    if status != 0:
        sys.exit(f"{shlex.join(map(str, command))} failed with status {status}")
    return False


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("flags", nargs="*", default=["--model", "tiny"])
    arguments = parser.parse_args()
    sys.exit(main(arguments.kills, arguments.seed, arguments.flags or ["--model", "tiny"]))
