"""Random damage of a bundle folder, and a worker process that loads what comes out of it.

``python -m tests.corruption BUNDLE FIRST COUNT plain|rehashed`` prints one JSON line per seed:
what was done, what came of it, processor seconds and the process' peak memory. ``rehashed`` plays
an attacker who makes every hash right again; what loads then must also predict.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from dwise_predict.bundle import PredictorBundle
from dwise_predict.bundle.schema import config_bytes, content_digest
from dwise_predict.bundle.store import entry
from dwise_predict.errors import BundleError

HANG_SECONDS = 60
_JSON = ("config.json", "metrics.json", "provenance.json", "smoke.json")
_HUGE = (2**31, 2**63, 10**18, 10**400, -1, 0, 1e308, 4_000_000_000)
_CHARACTERS = b'0123456789-. \n=e{}[]",:\x00\xff'


def damage(folder: Path, seed: int) -> str:
    """Damage the bundle in ``folder`` in a way drawn from ``seed``; returns which."""
    rng = random.Random(seed)
    for _ in range(100):
        kind = rng.choice(list(KINDS))
        before = _contents(folder)
        KINDS[kind](folder, rng)
        if _contents(folder) != before:
            return kind
    raise AssertionError(f"seed {seed} damaged nothing")


def rehash(folder: Path) -> None:
    """Make sizes, hashes and the digest right, as far as config.json still is an object."""
    path = folder / "config.json"
    try:
        content = json.loads(path.read_bytes())
        for name, listed in content["files"].items():
            if (folder / name).is_file():
                listed.clear()
                listed.update(entry((folder / name).read_bytes()).model_dump())
        content["digest"] = content_digest(content)
        path.write_bytes(config_bytes(content))
    except (ValueError, TypeError, KeyError, AttributeError, OSError, RecursionError):
        return  # nothing that an attacker could repair without undoing the damage


def _file(folder: Path, rng: random.Random) -> Path:
    return rng.choice(sorted(path for path in folder.iterdir() if path.is_file()))


def _flip(folder: Path, rng: random.Random) -> None:
    path = _file(folder, rng)
    content = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 1, 3))):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def _replace(folder: Path, rng: random.Random) -> None:
    path = _file(folder, rng)
    content = bytearray(path.read_bytes())
    for _ in range(rng.randint(1, 5)):
        content[rng.randrange(len(content))] = rng.choice(_CHARACTERS)
    path.write_bytes(content)


def _truncate(folder: Path, rng: random.Random) -> None:
    path = _file(folder, rng)
    content = path.read_bytes()
    path.write_bytes(content[: rng.randrange(len(content))])


def _grow(folder: Path, rng: random.Random) -> None:
    path = _file(folder, rng)
    content = path.read_bytes()
    at = rng.randrange(len(content))
    path.write_bytes(content[:at] + rng.randbytes(rng.randint(1, 5000)) + content[at:])


def _swap(folder: Path, rng: random.Random) -> None:
    a, b = _file(folder, rng), _file(folder, rng)
    first, second = a.read_bytes(), b.read_bytes()
    a.write_bytes(second)
    b.write_bytes(first)


def _remove(folder: Path, rng: random.Random) -> None:
    path = _file(folder, rng)
    path.unlink()
    if rng.random() < 0.3:
        path.mkdir()


def _edit(change: Callable[[dict[str, Any], str, random.Random], None]) -> Callable[..., None]:
    def edit(folder: Path, rng: random.Random) -> None:
        path = folder / rng.choice(_JSON)
        content = json.loads(path.read_bytes())
        section = content
        while True:
            key = rng.choice(sorted(section))
            if isinstance(section[key], dict) and section[key] and rng.random() < 0.8:
                section = section[key]
                continue
            change(section, key, rng)
            break
        path.write_bytes(config_bytes(content))

    return edit


def _rename(section: dict[str, Any], key: str, rng: random.Random) -> None:
    section[key + rng.choice(("s", "_", "X"))] = section.pop(key)


def _make_huge(section: dict[str, Any], key: str, rng: random.Random) -> None:
    section[key] = rng.choice(_HUGE)


def _retype(section: dict[str, Any], key: str, rng: random.Random) -> None:
    section[key] = rng.choice((None, [], {}, "x" * 100_000, [0] * 100_000, True, "../../etc"))


def _nest(folder: Path, rng: random.Random) -> None:
    path = folder / rng.choice(_JSON)
    depth = rng.choice((300, 10_000, 1_000_000))
    opening, closing = rng.choice(((b"[", b"]"), (b'{"a":', b"}")))
    deep = opening * depth + b"1" + closing * depth * rng.randint(0, 1)
    content = path.read_bytes().rstrip().removesuffix(b"}")
    path.write_bytes(deep if rng.random() < 0.5 else content + b', "deep": ' + deep + b"}")


def _poison(folder: Path, rng: random.Random) -> None:
    path = folder / "refiner.safetensors"
    tensors = {name: np.array(value) for name, value in load(path.read_bytes()).items()}
    tensor = tensors[rng.choice(sorted(tensors))].reshape(-1)
    tensor[rng.randrange(len(tensor))] = rng.choice((np.nan, np.inf, -np.inf, 3e38, -3e38))
    path.write_bytes(save(tensors))


def _reshape(folder: Path, rng: random.Random) -> None:
    """A safetensors header that lies about shapes, types or offsets."""
    path = folder / "refiner.safetensors"
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    info = header[rng.choice(sorted(header))]
    key = rng.choice(("shape", "data_offsets", "dtype"))
    info[key] = "F64" if key == "dtype" else [rng.choice(_HUGE) for _ in info[key]]
    text = json.dumps(header).encode()
    size = rng.choice((len(text), 2**62)).to_bytes(8, "little")
    path.write_bytes(size + text + content[8 + length :])


def _graft(folder: Path, rng: random.Random) -> None:
    """Trees whose fields hold numbers of other places."""
    path = folder / "admission.txt"
    lines = path.read_text().split("\n")
    fields = [i for i, line in enumerate(lines) if "=" in line]
    i = rng.choice(fields)
    key, _, value = lines[i].partition("=")
    values = value.split(" ")
    values[rng.randrange(len(values))] = rng.choice(
        ("-1", "0", "99999999999", "nan", "1e999", "", "-7", "3", "0x10", "inf")
    )
    lines[i] = f"{key}={' '.join(values)}"
    path.write_text("\n".join(lines))


KINDS: dict[str, Callable[[Path, random.Random], None]] = {
    "flip": _flip,
    "replace": _replace,
    "truncate": _truncate,
    "grow": _grow,
    "swap": _swap,
    "remove": _remove,
    "rename": _edit(_rename),
    "huge": _edit(_make_huge),
    "retype": _edit(_retype),
    "nest": _nest,
    "poison": _poison,
    "reshape": _reshape,
    "graft": _graft,
}


def _contents(folder: Path) -> dict[str, bytes | None]:
    return {p.name: p.read_bytes() if p.is_file() else None for p in folder.iterdir()}


def _try(folder: Path) -> str:
    """``refused: …`` or ``loaded``; anything else is a bug and ends the process."""
    try:
        bundle = PredictorBundle.load(folder)
    except BundleError as error:
        return f"refused: {error}"
    with bundle.admission as admission:
        rounds = admission.rounds(words=10, newlines=1, prompt_tokens=20, token_ids=range(20))
    rows = np.array([[0], [1], [3e38], [-3e38]], dtype=np.float32)
    hidden = np.repeat(rows, bundle.config.refiner.hidden_size, axis=1)
    remaining = bundle.refiner(hidden, np.array([5, 9, 0, 2**31]), np.array([64, 256, 1, 2**31]))
    estimates = np.stack([remaining.mean().numpy(), remaining.mean_residual(5).numpy()])
    assert rounds >= 1 and np.isfinite(estimates).all() and (estimates > 0).all(), estimates
    return "loaded"


def _peak_kb() -> int:
    """Peak memory of this process (Linux); getrusage would count that of the parent, too."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


def main(bundle: Path, first: int, count: int, mode: str) -> None:
    """Damage a copy ``count`` times and print what comes of it."""
    if mode == "rehashed":
        _try(bundle)  # torch and LightGBM are loaded before memory is measured
    with tempfile.TemporaryDirectory() as scratch:
        for seed in range(first, first + count):
            folder = Path(scratch) / "bundle"
            shutil.copytree(bundle, folder)
            kind = damage(folder, seed)
            if mode == "rehashed":
                rehash(folder)
            print(json.dumps({"seed": seed, "kind": kind}), flush=True)
            signal.alarm(HANG_SECONDS)
            started = time.process_time()
            outcome = _try(folder)
            seconds = time.process_time() - started
            signal.alarm(0)
            row = {"outcome": outcome[:300], "seconds": seconds, "peak_kb": _peak_kb()}
            print(json.dumps(row))
            shutil.rmtree(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
