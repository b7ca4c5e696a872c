"""Profile the embedded model and train predictors: python examples/train.py [OUT]

A small workload, so that it takes half a minute; the recipe's own takes two minutes and gives
better predictors. OUT becomes a run folder, examples/simulate.py goes on from there.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dwise_predict import train_bundle
from dwise_predict.pipeline import run_training
from dwise_predict.recipe import load_recipe

out = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/example")
recipe = load_recipe("tiny", ["workload.train=384", "workload.eval=192", "seed=3"])
run = run_training(recipe, out)

for name in ("admission", "refined"):
    found = getattr(run.metrics, name)
    print(f"{name:9} Spearman {found.spearman:.2f}, mean absolute error {found.mae:.1f} rounds")
print("bundle", run.folder.bundle)

# A finished profile trains as many bundles as you like, without an engine.
wider = recipe.predictors.refiner.model_copy(update={"members": 5})
settings = recipe.predictors.model_copy(update={"refiner": wider})
again = train_bundle(run.folder.profile, out / "five-members", settings, seed=recipe.seed)
print(f"five networks: Spearman {again.metrics.refined.spearman:.2f}")
