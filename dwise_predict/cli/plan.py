"""What ``--plan`` prints: the resolved recipe and the stages, done or to do."""

from __future__ import annotations

from pathlib import Path

from dwise_predict.doctor.campaign import describe
from dwise_predict.engines.torch_engine.decoding import make_algorithm
from dwise_predict.recipe import Recipe, dump_recipe
from dwise_predict.run_folder import RunFolder
from dwise_predict.workload.build import build_workload


def describe_run(recipe: Recipe, out: Path, only_profile: bool = False) -> str:
    """The recipe as YAML with its defaults, then one comment line per stage.

    Decoding parameters are checked and a JSONL workload is read, so that mistakes show before
    anything runs.
    """
    if recipe.engine.name == "torch":
        make_algorithm(recipe.decoding.algorithm, recipe.decoding.parameters)
    folder = RunFolder(out)
    train, held_out = _sizes(recipe)
    shards = -(-(train + held_out) // recipe.profile.shard_requests)
    refiner = recipe.predictors.refiner
    stages = [
        ("workload", f"{train} training and {held_out} evaluation requests", folder.workload),
        (
            "profile",
            f"{train + held_out} requests in {shards} shards, {recipe.engine.slots} slots, "
            f"{recipe.engine.name} engine",
            folder.profile / "run.json",
        ),
        *_repeats(recipe, folder),
        (
            "train",
            f"admission ({recipe.predictors.admission.trees} trees) and refinement "
            f"({refiner.members} networks of {refiner.layers} x {refiner.width})",
            folder.predictions,
        ),
        ("report", str(folder.report), folder.report),
    ]
    lines = [
        f"# {name:<9} {'done ' if product.is_file() else 'to do'}  {what}"
        for name, what, product in (stages[:-2] if only_profile else stages)
    ]
    if recipe.engine.name == "sglang":
        lines += ["# the campaign:", *(f"# {line}" for line in describe(recipe, train, held_out))]
    return "\n".join([dump_recipe(recipe), f"# stages in {out}:", *lines])


def _repeats(recipe: Recipe, folder: RunFolder) -> list[tuple[str, str, Path]]:
    """The stage in which requests are served again, where the recipe has it."""
    settings = recipe.profile
    again = [f"{settings.repeats - 1} more times in other orders"] if settings.repeats > 1 else []
    if settings.compare_batching:
        again.append("once under mixed batching")
    return [("repeats", f"the same, {' and '.join(again)}", folder.stability)] if again else []


def _sizes(recipe: Recipe) -> tuple[int, int]:
    """Training and evaluation requests."""
    if recipe.workload.path is None:
        return recipe.workload.train, recipe.workload.eval
    requests = build_workload(recipe.workload, recipe.model, recipe.seed)
    train = sum(request.split == "train" for request in requests)
    return train, len(requests) - train
