"""Trains an encoder and a head together, or a head on features."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from dwise_predict.baselines.encoder import TextEncoder
from dwise_predict.baselines.settings import TuningSettings
from dwise_predict.progress import Advance

Loss = Callable[[Tensor, Tensor], Tensor]
"""From outputs [b, k] of the head and the rows int64 [b] they belong to, to a number."""


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw torch's random numbers from ``seed`` inside, and from where they were afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def tune(
    encoder: TextEncoder,
    head: nn.Module,
    texts: Sequence[str],
    loss: Loss,
    settings: TuningSettings,
    advance: Advance,
) -> None:
    """Train encoder and head on ``texts``; ``advance`` is told the share of all steps done."""
    parameters = [*encoder.moving().values(), *head.parameters()]
    encoder.train()
    head.train()
    for rows in _steps(parameters, len(texts), settings, advance):
        outputs = head(encoder([texts[row] for row in rows.tolist()]))
        loss(outputs, rows).backward()  # type: ignore[no-untyped-call]
    encoder.eval()
    head.eval()


def fit_head(
    head: nn.Module, inputs: Tensor, loss: Loss, settings: TuningSettings, advance: Advance
) -> None:
    """Train ``head`` on ``inputs`` [n, width]."""
    head.train()
    for rows in _steps(list(head.parameters()), len(inputs), settings, advance):
        loss(head(inputs[rows]), rows).backward()  # type: ignore[no-untyped-call]
    head.eval()


def _steps(
    parameters: list[nn.Parameter] | list[Tensor],
    n: int,
    settings: TuningSettings,
    advance: Advance,
) -> Iterator[Tensor]:
    """Rows of every batch; the caller computes gradients, and the next turn makes the step."""
    optimizer_class = torch.optim.AdamW if settings.decoupled else torch.optim.Adam
    optimizer = optimizer_class(
        parameters, lr=settings.learning_rate, weight_decay=settings.weight_decay
    )
    total = settings.epochs * math.ceil(n / settings.batch_size)
    done = 0
    for _ in range(settings.epochs):
        for rows in torch.split(torch.randperm(n), settings.batch_size):
            for group in optimizer.param_groups:
                group["lr"] = settings.learning_rate * remaining_rate(settings.decay, done / total)
            optimizer.zero_grad()
            yield rows
            optimizer.step()
            done += 1
            advance(1 / total)


def remaining_rate(decay: str, progress: float) -> float:
    """Share of the initial learning rate when ``progress`` (0 to 1) of all steps are done."""
    if decay == "constant":
        return 1.0
    if decay == "linear":
        return 1.0 - progress
    return 0.5 * (1.0 + math.cos(math.pi * progress))
