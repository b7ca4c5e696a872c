"""What may import what: the layering rules that other people's schedulers rely on."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import dwise_predict

PACKAGE = Path(dwise_predict.__file__).parent
ENGINES = {"sglang", "transformers", "datasets", "vllm"}
ABOVE = {
    *{"engines", "sglang", "training", "pipeline", "evaluation", "cli", "profile_repo"},
    *{"baselines", "experiments"},
}


def imported(path: Path) -> set[str]:
    """Modules that a file imports anywhere, inside functions too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


@pytest.mark.parametrize("layer", ["predictors", "bundle", "hub", "zoo"])
def test_predictors_and_bundles_can_be_imported_by_any_scheduler(layer: str) -> None:
    for path in sorted((PACKAGE / layer).rglob("*.py")):
        for module in imported(path):
            parts = module.split(".")
            assert parts[0] not in ENGINES, (path, module)
            if parts[0] == "dwise_predict" and len(parts) > 1:
                assert parts[1] not in ABOVE, (path, module)


def test_the_hub_client_knows_nothing_of_bundles_and_profiles() -> None:
    for path in (PACKAGE / "hub").glob("*.py"):
        own = {m.split(".")[1] for m in imported(path) if m.startswith("dwise_predict.")}
        assert own <= {"errors", "hub"}, path


def test_the_engine_independent_part_of_the_plugin_knows_no_engine() -> None:
    for path in (PACKAGE / "plugin").glob("*.py"):
        for module in imported(path):
            assert module.split(".")[0] not in ENGINES, (path, module)
            assert not module.startswith(("dwise_predict.sglang", "dwise_predict.cli")), path
