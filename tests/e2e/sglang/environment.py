"""Makes the SGLang of this environment run on a CPU; import it before anything of SGLang.

Nothing of SGLang is edited. ``stubs`` answers imports of GPU packages, and the engine plugin
(``engine_plugin.py``, an entry point of its own) sets the mask id of checkpoints that say theirs.
"""

import os
import sys
from importlib import metadata, util
from pathlib import Path

HERE = Path(__file__).resolve().parent
VERSION = metadata.version("sglang")

_SWITCHES = {
    "SGLANG_USE_CPU_ENGINE": "1",
    "TORCH_COMPILE_DISABLE": "1",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_IDLE": "1",
}
_MODELS = ("sdar", "sdar_moe", "llada2", "gemma4_diffusion")


def other_models():
    """Every model module of SGLang but the diffusion ones: importing them takes seconds."""
    spec = util.find_spec("sglang")
    folder = Path(spec.origin).parent / "srt" / "models"
    names = (path.stem for path in folder.glob("*.py"))
    needed = ("gemma", "__init__", *_MODELS)
    return ",".join(sorted(name for name in names if not name.startswith(needed)))


def prepare():
    """Set the switches, also for processes started from here."""
    os.environ.update(_SWITCHES)
    os.environ.setdefault("SGLANG_DISABLED_MODEL_ARCHS", other_models())
    paths = [str(HERE / "stubs"), str(HERE / "engine_plugin")]
    sys.path[:0] = [path for path in paths if path not in sys.path]
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([*paths, *filter(None, inherited)]))
