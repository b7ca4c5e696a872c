"""Matrix products through oneDNN on CPU, where torch would take MKL for float32."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dwise_predict.engines.torch_engine.model import SdarModel


class OneDnnLinear(nn.Module):
    """``F.linear`` for float32 on CPU through oneDNN's kernel.

    ``torch.nn.Linear`` hands float32 to MKL, which does not use AVX-512 on AMD processors:
    114 GFLOP/s against 253 on one core of an EPYC (512 x 256 by 256 x 640). The operator is the
    one that torch.compile emits; torch has no public name for it.
    """

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """``x @ weight.T`` for ``x`` [..., in]."""
        out: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.weight, None, "none", [], "")
        return out


def use_onednn(model: SdarModel) -> bool:
    """Replace the linear layers, all bias-free, of a float32 CPU model in place, for inference.

    Returns whether it was done: False where this torch lacks the operator or oneDNN, or
    the operator does not agree with ``F.linear``.
    """
    if not _operator_agrees():
        return False
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear):
                setattr(parent, name, OneDnnLinear(child.weight))
    return True


def _operator_agrees() -> bool:
    generator = torch.Generator().manual_seed(0)
    x, weight = torch.randn(3, 5, generator=generator), torch.randn(7, 5, generator=generator)
    try:
        out = OneDnnLinear(weight)(x)
    except (AttributeError, RuntimeError):
        return False
    return bool(torch.allclose(out, F.linear(x, weight), atol=1e-5))
