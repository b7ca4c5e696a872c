from __future__ import annotations

import signal

from hypothesis import settings

# A shell's background job ignores Ctrl-C and so would all that it starts; tests send it to some.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Hypothesis fails a test whose single example is slow, which on a busy machine says nothing.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
