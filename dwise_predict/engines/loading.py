"""The engine that a recipe names."""

from __future__ import annotations

from dwise_predict.engines.protocol import Engine
from dwise_predict.errors import EngineError
from dwise_predict.recipe import Recipe


def load_engine(recipe: Recipe) -> Engine:
    """Load the recipe's model into its engine; raises EngineError when that is impossible."""
    if recipe.engine.name != "torch":
        raise EngineError(
            f"engine.name={recipe.engine.name} only profiles and serves; what is asked for here "
            "needs the built-in engine: --set engine.name=torch (SDAR checkpoints)"
        )
    from dwise_predict.engines.torch_engine.engine import TorchEngine

    return TorchEngine.load(recipe.model, recipe.engine, recipe.decoding)
