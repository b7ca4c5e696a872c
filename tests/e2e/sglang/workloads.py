"""Prompts for the engine tests: the embedded model's workload, and random tokens."""

import random

from dwise_predict.engines.protocol import EngineRequest
from dwise_predict.engines.torch_engine.engine import TorchEngine
from dwise_predict.recipe import load_recipe
from dwise_predict.tiny import checkpoint_dir
from dwise_predict.workload.builtin import builtin_workload

TINY = checkpoint_dir()


def torch_engine(slots=8, **decoding):
    """The built-in engine on the embedded model."""
    recipe = load_recipe("tiny")
    settings = recipe.engine.model_copy(update={"slots": slots, "threads": 1})
    return TorchEngine.load(recipe.model, settings, recipe.decoding.model_copy(update=decoding))


def tiny_requests(engine, count, seed=0, budget=256):
    """``count`` requests of the embedded model's workload and their texts."""
    requests = builtin_workload(seed, count, 1)[:count]
    queue = [
        EngineRequest(request.request_id, tuple(engine.encode(request.messages)), budget)
        for request in requests
    ]
    return queue, {request.request_id: request for request in requests}


def random_requests(count, seed=1, vocabulary=250, longest=60, budget=64):
    """Prompts of random tokens, many shorter than a block, with different budgets."""
    rng = random.Random(seed)
    return [
        EngineRequest(
            f"r{i:03}",
            tuple(rng.randrange(2, vocabulary) for _ in range(rng.randrange(1, longest))),
            rng.randrange(1, budget),
        )
        for i in range(count)
    ]
