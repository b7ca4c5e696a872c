from __future__ import annotations

from hypothesis import settings

# Hypothesis fails a test whose single example is slow, which on a busy machine says nothing.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
