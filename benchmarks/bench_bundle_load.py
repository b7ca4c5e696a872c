"""Load time of a bundle, cold and warm, against reading its bytes without any check.

    python benchmarks/bench_bundle_load.py [FOLDER]

*Cold* is a new process: the import of the library, the load, and the first prediction of each kind.
*Warm* is another load in a process that has loaded one. The baseline reads the same files and
hands them to LightGBM and safetensors as they are. FOLDER defaults to the shipped bundle. Files are
in the system's cache in both cases. Prints milliseconds and ratios.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import lightgbm
from safetensors.numpy import load as load_tensors

from dwise_predict.bundle import PredictorBundle
from dwise_predict.zoo import bundled_folder

REPEATS = 15
COLD = """
import time
start = time.perf_counter()
from dwise_predict import PredictorBundle
imported = time.perf_counter()
bundle = PredictorBundle.load({folder!r})
loaded = time.perf_counter()
bundle.admission.rounds(words=31, newlines=2, prompt_tokens=57)
admitted = time.perf_counter()
bundle.refiner
refined = time.perf_counter()
print(imported - start, loaded - imported, admitted - loaded, refined - admitted)
"""
STAGES = (
    "import PredictorBundle",
    "load and check",
    "first admission estimate",
    "first refiner (imports torch)",
)


def main(folder: Path) -> None:
    """Time both ways and print medians."""
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"bundle of {size / 1e6:.2f} MB")
    plain = warm_ms(lambda: unchecked(folder))
    checked = warm_ms(lambda: PredictorBundle.load(folder))
    usable = warm_ms(lambda: ready(folder))
    print(f"warm: bytes to LightGBM and safetensors, unchecked {plain:8.2f} ms")
    print(f"warm: load and check                               {checked:8.2f} ms")
    print(
        f"warm: load, check and build both predictors        {usable:8.2f} ms  "
        f"{usable / plain:5.2f} times the unchecked"
    )
    runs = [cold(folder) for _ in range(5)]
    for name, seconds in zip(STAGES, zip(*runs, strict=True), strict=True):
        print(f"cold: {name:44s} {statistics.median(seconds) * 1e3:8.2f} ms")


def unchecked(folder: Path) -> None:
    """What a loader that trusts its input does."""
    lightgbm.Booster(model_str=(folder / "admission.txt").read_text())
    load_tensors((folder / "refiner.safetensors").read_bytes())


def ready(folder: Path) -> None:
    """A bundle whose predictors are built."""
    bundle = PredictorBundle.load(folder)
    _ = bundle.admission, bundle.refiner


def warm_ms(call: Callable[[], object]) -> float:
    """Median milliseconds of a call after the first one."""
    call()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def cold(folder: Path) -> list[float]:
    """Seconds of each stage in a new process."""
    code = COLD.format(folder=str(folder))
    output = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout
    return [float(text) for text in output.split()]


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else bundled_folder("tiny"))
