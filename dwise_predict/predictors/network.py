"""Several independent MLPs evaluated and trained as one batched matrix product."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu


class MemberMLP(nn.Module):
    """``members`` MLPs of the same shape with weights of their own.

    Layer ``i`` is one ``baddbmm`` over all members: weights ``layer{i}_weight`` are
    ``[members, in, out]`` and biases ``layer{i}_bias`` are ``[members, 1, out]``. GELU and dropout
    follow every layer but the last. Members never mix: the gradient of one member's loss is zero
    in the weights of the others.

    Args:
        members: number of networks M.
        sizes: widths from inputs to outputs, e.g. (2050, 256, 256, 279).
        generators: one per member; a member's initial weights depend on its own generator only.
            None leaves the weights at zero, to be loaded.
    """

    def __init__(
        self, members: int, sizes: Sequence[int], generators: Sequence[torch.Generator] | None
    ) -> None:
        super().__init__()
        self.members = members
        self.layers = [f"layer{i}" for i in range(len(sizes) - 1)]
        for name, fan_in, fan_out in zip(self.layers, sizes[:-1], sizes[1:], strict=True):
            weight = torch.zeros(members, fan_in, fan_out)
            if generators is not None:
                for member, generator in enumerate(generators):
                    weight[member].normal_(0, 1 / math.sqrt(fan_in), generator=generator)
            self.register_parameter(f"{name}_weight", nn.Parameter(weight))
            self.register_parameter(f"{name}_bias", nn.Parameter(torch.zeros(members, 1, fan_out)))

    @property
    def last_weight(self) -> Tensor:
        """Weights of the output layer, ``[members, width, out]``."""
        return self.get_parameter(f"{self.layers[-1]}_weight")

    @property
    def last_bias(self) -> Tensor:
        """Biases of the output layer, ``[members, 1, out]``."""
        return self.get_parameter(f"{self.layers[-1]}_bias")

    def forward(self, x: Tensor, masks: Sequence[Tensor] = ()) -> Tensor:
        """Evaluate every member.

        Args:
            x: inputs, float ``[members, n, in]``, or ``[n, in]`` for all members alike.
            masks: dropout masks after each hidden layer, ``[members, n, width]``, already scaled
                by 1 / (1 - p); empty evaluates without dropout.

        Returns:
            float ``[members, n, out]``.
        """
        x = x.expand(self.members, -1, -1)
        for i, name in enumerate(self.layers):
            weight, bias = self.get_parameter(f"{name}_weight"), self.get_parameter(f"{name}_bias")
            x = torch.baddbmm(bias, x, weight)
            if i + 1 < len(self.layers):
                x = gelu(x)
                if masks:
                    x = x * masks[i]
        return x


def dropout_masks(
    generators: Sequence[torch.Generator], n: int, width: int, layers: int, p: float
) -> list[Tensor]:
    """Draw scaled dropout masks, one ``[members, n, width]`` per hidden layer.

    A member's masks depend on its own generator only.
    """
    if p == 0:
        return []
    drawn = torch.stack([torch.rand(layers, n, width, generator=g) for g in generators], dim=1)
    return list((drawn >= p).float() / (1 - p))
