"""The SGLang plugin: DWISE scheduling and profiling in the unmodified engine (paper Section 5).

SGLang calls :func:`register` through the entry point ``sglang.srt.plugins`` in the launching
process and in every scheduler process. Without ``DWISE_*`` variables nothing is changed.
"""

from __future__ import annotations

import os

from dwise_predict.plugin.settings import asked


def register() -> None:
    """Register the plugin's hooks, if a ``DWISE_*`` variable asks for anything."""
    if asked(os.environ):
        from dwise_predict.sglang.hooks import register_hooks

        register_hooks()
