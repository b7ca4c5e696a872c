from __future__ import annotations

import pytest

from dwise_predict.pipeline import RunResult, run_training
from dwise_predict.recipe import load_recipe

SEED = 20_261_130
"""Nothing was tuned on it, and nothing that is shipped was trained with it."""


@pytest.fixture(scope="session")
def result(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    """One default-size run."""
    recipe = load_recipe("tiny").model_copy(update={"seed": SEED})
    return run_training(recipe, tmp_path_factory.mktemp("quality") / "runs" / "tiny")
