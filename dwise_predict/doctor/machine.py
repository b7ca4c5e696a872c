"""GPUs and their memory, disk space, the run folder, the server's port."""

from __future__ import annotations

import math
import os
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path

from dwise_predict.doctor.findings import Finding, missing, ok, warn
from dwise_predict.recipe import Recipe

GIB = 2**30
WORKSPACE_GIB = 6.0
"""GPU memory besides weights and KV cache: activations, CUDA graphs, the CUDA context. A rough
allowance, not a measurement."""


@dataclass(frozen=True)
class Gpu:
    """One GPU; memory in bytes."""

    name: str
    total: int
    free: int


def gpus_here() -> list[Gpu]:
    """The GPUs that torch sees."""
    import torch

    if not torch.cuda.is_available():
        return []
    found = []
    for index in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(index)
        found.append(Gpu(torch.cuda.get_device_name(index), total, free))
    return found


def memory(recipe: Recipe, gpus: list[Gpu]) -> Finding:
    """Whether weights and KV cache fit the GPUs."""
    settings = recipe.engine.sglang
    ranks = settings.tp_size if settings else 1
    weights = weights_bytes(recipe)
    pool = (settings.kv_pool_gib or 0.0) * GIB if settings else 0.0
    if len(gpus) < ranks:
        need = "" if weights is None else f" with {_need(weights, pool, ranks)}"
        fewer = f", or --set engine.sglang.tp_size={len(gpus)}" if gpus else ""
        return missing(
            "gpu memory",
            f"{len(gpus)} GPUs here, {ranks} needed{need}",
            f"run on a machine with {ranks} such GPU{'s' if ranks > 1 else ''}{fewer}",
        )
    used = gpus[:ranks]
    if weights is None:
        return warn(
            "gpu memory",
            f"{_list(used)}; the size of the weights is unknown",
            "set model.weights_gb to have it checked",
        )
    needed = (weights + pool) / ranks + WORKSPACE_GIB * GIB
    least = min(gpu.total for gpu in used)
    if needed > least:
        room = min(gpu.free for gpu in used) - weights / ranks - WORKSPACE_GIB * GIB
        pool_gib = math.floor(10 * room * ranks / GIB) / 10
        smaller = f"--set engine.sglang.kv_pool_gib={pool_gib}, or " if pool_gib > 0 else ""
        return missing(
            "gpu memory",
            f"{_list(used)}; {_need(weights, pool, ranks)}",
            f"{smaller}spread the model: --set engine.sglang.tp_size={2 * ranks}",
        )
    busy = [gpu for gpu in used if gpu.free < needed]
    if busy:
        return warn(
            "gpu memory",
            f"only {_gib(min(gpu.free for gpu in busy))} free of {_list(used)}; "
            f"{_need(weights, pool, ranks)}",
            "end what else runs on the GPU (nvidia-smi lists it)",
        )
    return ok("gpu memory", f"{_list(used)}; {_need(weights, pool, ranks)}")


def weights_bytes(recipe: Recipe) -> float | None:
    """Size of the weights, as the recipe says or the checkpoint folder shows."""
    if recipe.model.weights_gb is not None:
        return recipe.model.weights_gb * 1e9
    folder = Path(recipe.model.repo).expanduser()
    files = list(folder.glob("*.safetensors")) if folder.is_dir() else []
    return float(sum(file.stat().st_size for file in files)) if files else None


def disk(check: str, folder: Path, needed: float, what: str) -> Finding:
    """Whether ``folder``, or what it will be made in, is writable and has ``needed`` bytes free."""
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    if not place.is_dir() or not os.access(place, os.W_OK):
        return missing(check, f"{place} cannot be written", "choose another folder or its rights")
    free = shutil.disk_usage(place).free
    if free < needed:
        return missing(
            check,
            f"{free / 1e9:.1f} GB free at {place}, {needed / 1e9:.1f} GB needed for {what}",
            "free space or choose another folder",
        )
    return ok(
        check, f"{free / 1e9:.0f} GB free at {place}, {needed / 1e9:.2g} GB needed for {what}"
    )


def workload(recipe: Recipe) -> Finding:
    """Whether the prompts of a file are there; those of data sets are the Hub's matter."""
    path = recipe.workload.path
    if path is None:
        sizes = f"{recipe.workload.train} training and {recipe.workload.eval} evaluation requests"
        return ok("workload", f"{recipe.workload.name}, {sizes}")
    if not Path(path).is_file():
        return missing("workload", f"{path} is not there", "correct --workload")
    return ok("workload", path)


def port(recipe: Recipe) -> Finding:
    """Whether SGLang's port is free on this machine."""
    number = recipe.engine.sglang.port if recipe.engine.sglang else 30_000
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", number))
        except OSError as error:
            return warn(
                "port",
                f"{number} cannot be used ({error.strerror})",
                f"--set engine.sglang.port={number + 10}, or end what listens there",
            )
    return ok("port", f"{number} is free")


def _need(weights: float, pool: float, ranks: int) -> str:
    cache = f"KV cache {_gib(pool / ranks)}" if pool else "KV cache as large as fits"
    return (
        f"weights {_gib(weights / ranks)}, {cache} and about {WORKSPACE_GIB:g} GiB of workspace"
        + (" on each" if ranks > 1 else "")
    )


def _gib(count: float) -> str:
    return f"{count / GIB:.1f} GiB"


def _list(gpus: list[Gpu]) -> str:
    first = gpus[0]
    number = f"{len(gpus)} x " if len(gpus) > 1 else ""
    return f"{number}{first.name} with {_gib(min(gpu.total for gpu in gpus))}"
