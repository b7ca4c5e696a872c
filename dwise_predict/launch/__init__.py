"""Files that start profiling campaigns on one GPU, a node, Slurm and Kubernetes."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent
NAMES = ("one_gpu.sh", "one_node.sh", "slurm.sh", "kubernetes.yaml")
"""The files, smallest first."""


def launch_file(name: str) -> str:
    """The text of one of :data:`NAMES`."""
    return (_FOLDER / name).read_text(encoding="utf-8")
