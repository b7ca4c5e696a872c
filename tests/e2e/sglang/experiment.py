"""``dwise experiment --engine sglang`` with the embedded model on a CPU.

    .venv-sglang-0.5.20/bin/python -m tests.e2e.sglang.experiment end-to-end --seeds 1

What lets SGLang run here is loaded first, also into the servers that are started
(:mod:`tests.e2e.sglang.environment`); flags are those of ``dwise experiment``.
"""

import sys

from tests.e2e.sglang import environment

CPU = (
    "engine.device=cpu",
    "engine.sglang.attention_backend=torch_native",
    "engine.sglang.kv_pool_gib=0.5",
    "engine.sglang.kv_kib_per_token=8",
    "model.trust_remote_code=true",
)

if __name__ == "__main__":
    environment.prepare()
    from dwise_predict.cli.main import main

    settings = [word for setting in CPU for word in ("--set", setting)]
    sys.argv[1:] = ["experiment", *sys.argv[1:], "--engine", "sglang", *settings]
    main()
