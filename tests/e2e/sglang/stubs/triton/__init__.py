"""Import-only stand-in for Triton, which has no CPU build."""

import import_only

__version__ = "3.0.0"
__getattr__ = import_only.register(
    __name__,
    decorators={"triton.jit", "triton.autotune", "triton.heuristics"},
    # Described or registered at start and never run.
    harmless={
        "triton.Config",
        "triton.language.constexpr",
        "triton.knobs.runtime.kernel_load_start_hook.add",
    },
)

import triton.backends

# torch asks here which devices Triton can compile for: none.
triton.backends.backends = {}


def cdiv(a, b):
    """Round up a / b."""
    return -(-a // b)


def next_power_of_2(n):
    """Smallest power of two that is at least ``n``."""
    return 1 << max(n - 1, 0).bit_length()
