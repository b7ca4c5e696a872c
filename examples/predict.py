"""Load a bundle and predict: python examples/predict.py [NAME]

NAME is a name of the zoo (``tiny``, which needs no network), a folder, or ``ORG/NAME`` on the Hub.
"""

from __future__ import annotations

import sys

import torch

from dwise_predict import PredictorBundle
from dwise_predict.workload.schema import newline_count, word_count

bundle = PredictorBundle.from_pretrained(sys.argv[1] if len(sys.argv) > 1 else "tiny")
served = bundle.config.fingerprint
print(f"for {served.model}, {served.algorithm} {served.algorithm_parameters}")
print(f"budget of {served.budget_tokens} tokens, blocks of {served.block_size}")

# At admission, from the prompt alone. prompt_tokens is counted after the chat template.
for prompt in ("Letter only.", "Tell me a long story about a fox. " * 40):
    rounds = bundle.admission.rounds(
        words=word_count(prompt),
        newlines=newline_count(prompt),
        prompt_tokens=2 * word_count(prompt),
        token_ids=range(2 * word_count(prompt)),  # read by bundles with extended features only
    )
    print(f"admission: {word_count(prompt):3} words, {rounds:.1f} rounds")

# After the first denoising round, from its hidden means [n, hidden]. Here: none in particular.
hidden = torch.zeros(3, served.hidden_size)
remaining = bundle.refiner(hidden, torch.tensor([20, 200, 2000]), torch.full((3,), 256))
for index in range(3):
    mean, high = remaining.mean()[index], remaining.quantile(0.9)[index]
    later = remaining.mean_residual(elapsed=5)[index]
    print(f"refined: {mean:.1f} rounds left, 90% below {high:.0f}, after five more {later:.1f}")

# Another decoding setting gives other rounds: a bundle says so.
print(bundle.check(served.model_copy(update={"block_size": 2 * served.block_size})))
