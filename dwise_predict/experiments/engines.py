"""The built-in engine, loaded once a process."""

from __future__ import annotations

from functools import lru_cache

from dwise_predict.engines.torch_engine.engine import TorchEngine
from dwise_predict.recipe import DecodingSettings, EngineSettings, ModelSettings, Recipe


def torch_engine(recipe: Recipe, threads: int | None = None) -> TorchEngine:
    """The recipe's model in the built-in engine; ``threads`` replace those of the recipe."""
    changes = {"name": "torch"} if threads is None else {"name": "torch", "threads": threads}
    engine = recipe.engine.model_copy(update=changes)
    return _loaded(
        recipe.model.model_dump_json(), engine.model_dump_json(), recipe.decoding.model_dump_json()
    )


@lru_cache(maxsize=1)
def _loaded(model: str, engine: str, decoding: str) -> TorchEngine:
    return TorchEngine.load(
        ModelSettings.model_validate_json(model),
        EngineSettings.model_validate_json(engine),
        DecodingSettings.model_validate_json(decoding),
    )
