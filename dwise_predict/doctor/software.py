"""Python, packages, torch, SGLang and its hooks, decoding parameters."""

from __future__ import annotations

import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, entry_points, version
from importlib.util import find_spec
from pathlib import Path

from dwise_predict.doctor.contract import source_faults
from dwise_predict.doctor.findings import Finding, missing, ok, warn
from dwise_predict.engines.sglang_engine.arguments import algorithm_config
from dwise_predict.errors import RecipeError
from dwise_predict.recipe import DecodingSettings, Recipe
from dwise_predict.sglang.compat import CONTRACT, TESTED

_OLDEST_PYTHON = (3, 10)
_TRAIN_PACKAGES = ("tokenizers", "jinja2", "matplotlib")
_HOOK_GROUP = "sglang.srt.plugins"

PARAMETERS: dict[str, tuple[str, ...]] = {
    "LowConfidence": ("threshold",),
    "JointThreshold": ("threshold", "edit_threshold", "max_post_edit_steps", "penalty_lambda"),
    "JointThresholdInDel": ("threshold", "edit_threshold", "max_post_edit_steps"),
    "Gemma4Renoise": (
        "max_denoising_steps",
        "entropy_bound",
        "t_min",
        "t_max",
        "confidence_threshold",
        "stability_threshold",
        "seed",
    ),
}
"""What SGLang's decoding algorithms read (0.5.20 and 0.5.23); it ignores anything else."""

_SHARES = ("threshold", "edit_threshold", "confidence_threshold")
"""Of these, the ones that are compared with probabilities."""


def python() -> Finding:
    """The interpreter."""
    found = platform.python_version()
    if sys.version_info < _OLDEST_PYTHON:
        return missing("python", f"{found} is too old", "use Python 3.10 or newer")
    return ok("python", found)


def packages(recipe: Recipe, more: tuple[str, ...] = ()) -> Finding:
    """What profiling and reports need besides the engine; ``more`` are packages needed as well."""
    names = [*_TRAIN_PACKAGES, *more]
    if recipe.engine.name == "sglang":
        names.append("transformers")
    if recipe.workload.name == "paper":
        names.append("datasets")
    lacking = [name for name in names if find_spec(name) is None]
    if lacking:
        return missing(
            "packages",
            f"{', '.join(lacking)} not installed",
            "pip install 'dwise-predict[train]'",
        )
    return ok("packages", ", ".join(f"{name} {version(name)}" for name in names))


def torch(recipe: Recipe) -> Finding:
    """torch, and whether it can use a GPU where the recipe needs one."""
    import torch as library

    name = f"{library.__version__}"
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", recipe.engine.device):
        return missing(
            "torch",
            f"engine.device is {recipe.engine.device!r}",
            "set it to auto, cpu, cuda or cuda:N",
        )
    if recipe.engine.device == "cpu" or not needs_gpu(recipe):
        return ok("torch", f"{name}, on the CPU")
    if library.version.cuda is None and library.version.hip is None:
        return missing(
            "torch",
            f"{name} is a build without CUDA",
            "install the CUDA build that your SGLang release names (0.5.20: torch==2.13.0, 0.5.23: "
            "torch==2.14.1) on a machine with an NVIDIA driver",
        )
    toolkit = library.version.cuda or library.version.hip
    if not library.cuda.is_available():
        return missing(
            "torch",
            f"{name} for CUDA {toolkit} sees no GPU",
            "run on a machine with a GPU, and check that nvidia-smi lists it and "
            "CUDA_VISIBLE_DEVICES does not hide it",
        )
    return ok("torch", f"{name}, CUDA {toolkit}")


def needs_gpu(recipe: Recipe) -> bool:
    """Whether the recipe cannot run without one."""
    if recipe.engine.device == "auto":
        return recipe.engine.name == "sglang"
    return recipe.engine.device.startswith("cuda")


def sglang(recipe: Recipe) -> list[Finding]:
    """SGLang, its version, what the plugin hooks into, and whether SGLang would load the plugin."""
    wanted = recipe.engine.sglang.min_version if recipe.engine.sglang else TESTED[0]
    advised = next(
        (tested for tested in TESTED if _numbers(tested) >= _numbers(wanted)), TESTED[-1]
    )
    install = f"pip install sglang=={advised}"
    spec = find_spec("sglang")
    try:
        found = version("sglang")
    except PackageNotFoundError:
        found = ""
    if spec is None or not found or not spec.submodule_search_locations:
        return [
            missing("sglang", f"not installed; this model needs {wanted} or newer", install),
            warn("hooks", "not checked: they are SGLang's", "install SGLang first"),
        ]
    if _numbers(found) < _numbers(wanted):
        release = missing("sglang", f"{found} is too old: this model needs {wanted}", install)
    elif found not in TESTED:
        release = warn(
            "sglang",
            f"{found}; the plugin is tested with {' and '.join(TESTED)}",
            f"if anything is odd: {install}",
        )
    else:
        release = ok("sglang", found)
    return [release, _hooks(Path(spec.submodule_search_locations[0]), install)]


def _hooks(package: Path, install: str) -> Finding:
    if faults := source_faults(package, CONTRACT):
        return missing(
            "hooks",
            f"this SGLang is not what the plugin knows: {'; '.join(faults)}",
            f"{install}, or upgrade dwise-predict",
        )
    if not any(entry.name == "dwise" for entry in entry_points(group=_HOOK_GROUP)):
        return missing(
            "hooks",
            f"SGLang would not find the plugin: no entry point dwise in {_HOOK_GROUP}",
            "install dwise-predict into the same environment as SGLang with pip",
        )
    return ok("hooks", f"{len(CONTRACT)} names and signatures as the plugin expects them")


def decoding(settings: DecodingSettings) -> Finding:
    """Whether SGLang's algorithm reads what the recipe sets, and can do something with it."""
    known = PARAMETERS[settings.algorithm]
    unread = [name for name in settings.parameters if name not in known]
    unset = [name for name in known if name not in settings.parameters]
    if unread:
        return missing(
            "decoding",
            f"{settings.algorithm} does not read {', '.join(unread)}",
            f"it reads {', '.join(known)}: correct or remove decoding.parameters.{unread[0]}",
        )
    for name in _SHARES:
        if not 0 <= settings.parameters.get(name, 0) <= 1:
            return missing(
                "decoding",
                f"{name} is {settings.parameters[name]:g}, and is compared with probabilities",
                f"set decoding.parameters.{name} to a number from 0 to 1",
            )
    try:
        algorithm_config(settings)
    except RecipeError as error:
        return missing("decoding", str(error), "set it to a whole number")
    values = ", ".join(f"{name} {value:g}" for name, value in settings.parameters.items())
    if unset:
        return warn(
            "decoding",
            f"{settings.algorithm}: {values or 'nothing set'}; {', '.join(unset)} left to SGLang",
            "set all of them, so that labels do not depend on defaults of a release",
        )
    return ok("decoding", f"{settings.algorithm}: {values}")


def _numbers(release: str) -> tuple[int, ...]:
    """0.5.23 and 0.5.23.post1 as numbers that compare."""
    return tuple(int(part) for part in release.split(".")[:3] if part.isdigit())
