from pathlib import Path

import pytest

from tests.runs import dwise, write_study


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random checkpoint, a recipe and 72 prompts, with one undisturbed run in ``run``."""
    folder = write_study(tmp_path_factory.mktemp("study"))
    result = dwise(*TRAIN, "--out", "run", cwd=folder)
    assert result.returncode == 0, result.stderr
    (folder / "stdout").write_text(result.stdout)
    (folder / "stderr").write_text(result.stderr)
    return folder


TRAIN = ("train", "--model", "recipe.yaml", "--workload", "prompts.jsonl")
