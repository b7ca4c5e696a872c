"""Serve the embedded model in SGLang on a CPU, scheduled by DWISE.

    make serve-tiny
    make serve-tiny BUNDLE=runs/mine/bundle

SGLang is made for GPUs, and for checkpoints whose mask token it knows. What lets it run this small
one here is loaded first (tests/e2e/sglang/environment.py: stand-ins for GPU packages, the mask
token that the checkpoint names); then the command is the one for any model, `dwise serve`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))

from dwise_predict.recipe import load_recipe
from dwise_predict.tiny import checkpoint_dir
from tests.e2e.sglang import environment

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--bundle", default="tiny")
parser.add_argument("--port", default="30000")
parser.add_argument("--slots", default="16")
flags = parser.parse_args()

environment.prepare()
decoding = load_recipe("tiny").decoding
algorithm = Path(tempfile.mkdtemp()) / "algorithm.yaml"
algorithm.write_text(yaml.safe_dump({**decoding.parameters, "block_size": decoding.block_size}))
command = [
    *(str(Path(sys.executable).with_name("dwise")), "serve", "--bundle", flags.bundle, "--"),
    *("--model-path", str(checkpoint_dir()), "--port", flags.port),
    *("--dllm-algorithm", decoding.algorithm, "--dllm-algorithm-config", str(algorithm)),
    *("--max-running-requests", flags.slots, "--max-total-tokens", "65536"),
    *("--context-length", "2048", "--device", "cpu", "--dtype", "float32"),
    *("--attention-backend", "torch_native", "--trust-remote-code", "--enable-metrics"),
]
print(" ".join(command), flush=True)
os.execv(command[0], command)
