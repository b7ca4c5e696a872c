"""All checks of one campaign, in the order in which one would put things right."""

from __future__ import annotations

from pathlib import Path

from dwise_predict.doctor import machine, software
from dwise_predict.doctor.campaign import DATASETS_BYTES, run_bytes
from dwise_predict.doctor.findings import Finding
from dwise_predict.doctor.remote import remote
from dwise_predict.doctor.servers import servers
from dwise_predict.engines.sglang_engine.fleet import HERE, Fleet
from dwise_predict.recipe import Recipe


def examine(recipe: Recipe, out: Path, fleet: Fleet = HERE) -> list[Finding]:
    """What ``dwise train`` with this recipe and run folder would need, and whether it is there.

    Takes a few seconds: nothing of an engine is imported, and the Hub is asked for a few seconds
    at most. Nothing is installed, written or started; small files of the Hub go to its cache.
    Where servers do the serving, they are asked instead of looking for a GPU and SGLang here.
    """
    if fleet.servers:
        return _examine_driver(recipe, out, fleet)
    serves = recipe.engine.name == "sglang"
    findings = [software.python(), software.packages(recipe), software.torch(recipe)]
    if serves:
        findings += software.sglang(recipe)
        findings.append(software.decoding(recipe.decoding))
    if software.needs_gpu(recipe):
        findings.append(machine.memory(recipe, machine.gpus_here()))
    findings.append(machine.workload(recipe))
    asked = remote(recipe)
    findings += asked.findings
    if not asked.weights_cached:
        findings.append(_cache_space(recipe))
    findings.append(machine.disk("disk", out, run_bytes(recipe), "the run folder"))
    if serves:
        findings.append(machine.port(recipe))
    return findings


def _examine_driver(recipe: Recipe, out: Path, fleet: Fleet) -> list[Finding]:
    return [
        software.python(),
        software.packages(recipe, ("aiohttp",)),
        software.decoding(recipe.decoding),
        machine.workload(recipe),
        *remote(recipe, weights=False).findings,
        machine.disk("disk", out, run_bytes(recipe), "the run folder"),
        *servers(recipe, fleet.servers),
    ]


def _cache_space(recipe: Recipe) -> Finding:
    from huggingface_hub import constants

    needed = machine.weights_bytes(recipe) or 0.0
    if recipe.workload.name == "paper":
        needed += DATASETS_BYTES
    return machine.disk("download", Path(constants.HF_HUB_CACHE), needed, "model and data sets")
