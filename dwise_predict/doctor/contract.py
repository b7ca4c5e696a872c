"""Whether an installed SGLang has what the plugin hooks into, read from its sources.

Importing them would take longer than a preflight may, and needs a GPU's libraries.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path


def source_faults(package: Path, contract: Mapping[str, tuple[str, ...]]) -> list[str]:
    """What the sources of ``package`` lack of ``contract``, one sentence each.

    Args:
        package: the folder of the package that the names of ``contract`` begin with.
        contract: dotted name of a function or method to its first parameters.
    """
    trees: dict[Path, ast.Module] = {}
    faults = []
    for name, expected in contract.items():
        found = _parameters(name, package, trees)
        if found is None:
            faults.append(f"{name} does not exist")
        elif found[: len(expected)] != expected:
            faults.append(f"{name} takes {', '.join(found)}, expected {', '.join(expected)}")
    return faults


def _parameters(name: str, package: Path, trees: dict[Path, ast.Module]) -> tuple[str, ...] | None:
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        path = package.joinpath(*parts[1:cut]).with_suffix(".py")
        if not path.is_file():
            continue
        if path not in trees:
            trees[path] = ast.parse(path.read_text(encoding="utf-8"))
        definition = _definition(trees[path], parts[cut:])
        if definition is None:
            return None
        arguments = definition.args
        return tuple(argument.arg for argument in [*arguments.posonlyargs, *arguments.args])
    return None


def _definition(
    node: ast.Module | ast.ClassDef, names: list[str]
) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The function that a path of names leads to inside ``node``."""
    first, *rest = names
    for child in reversed(node.body):
        if not rest and isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            if child.name == first:
                return child
        elif rest and isinstance(child, ast.ClassDef) and child.name == first:
            return _definition(child, rest)
    return None
