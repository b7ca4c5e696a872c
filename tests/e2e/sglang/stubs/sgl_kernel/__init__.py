"""Import-only stand-in for sgl-kernel, which has no CPU build on PyPI.

With SGLANG_USE_CPU_ENGINE=1 SGLang imports its CPU kernels by name; the diffusion path calls none.
"""

import import_only

__getattr__ = import_only.register(__name__)
