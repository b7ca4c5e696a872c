"""Trains the refiner: all members at once, each with its own data order, dropout and stopping.

With one output per round, some four training requests end in each of 280 rounds: free outputs
overfit within a few epochs and their distributions blur. During training the last layer therefore
has ``hazard_knots`` outputs, spread over the rounds by fixed hat functions, on top of the
population's own (Kaplan-Meier) hazards. Both are linear, so they are folded into the last layer
afterwards: the network that is kept is the paper's, one hazard logit per future round.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dwise_predict.predictors.calibration import CalibrationMap, fit_calibration
from dwise_predict.predictors.errors import TrainingError
from dwise_predict.predictors.examples import Examples, group_folds
from dwise_predict.predictors.network import MemberMLP, dropout_masks
from dwise_predict.predictors.refiner import Normalisation, Refiner
from dwise_predict.predictors.survival import (
    LabelTransform,
    hazard_basis,
    kaplan_meier_logits,
    nll_logistic_hazard,
)
from dwise_predict.predictors.threads import one_thread
from dwise_predict.progress import SILENT, Progress
from dwise_predict.recipe import RefinerSettings

MIN_PROMPTS = 20
"""Fewest distinct prompts that train predictors: below, no split of theirs says anything."""


def check_trainable(examples: Examples, settings: RefinerSettings) -> None:
    """Say before any training why it could not succeed.

    Raises:
        TrainingError: fewer than :data:`MIN_PROMPTS` distinct prompts of finished requests that
            took more than one round, or no duration that ``settings.duration`` counts as known.
    """
    usable = examples.take(examples.finished & (examples.durations > 0))
    prompts = len(np.unique(usable.prompt))
    if prompts < MIN_PROMPTS:
        raise TrainingError(
            f"{prompts} distinct training prompts ({len(usable)} requests) were served to their "
            f"end in more than one denoising round; predictors need at least {MIN_PROMPTS}. "
            "Profile more prompts: raise workload.train, or add lines to the JSONL file."
        )
    if not usable.events(settings.duration).any():
        raise TrainingError(
            f"no training request has a known duration under predictors.refiner.duration="
            f"{settings.duration}: the budget cut them all. Raise decoding.budget_tokens, or set "
            "predictors.refiner.duration=completion."
        )


def fit_refiner(
    examples: Examples,
    settings: RefinerSettings,
    seed: int,
    progress: Progress = SILENT,
    start: Refiner | None = None,
) -> Refiner:
    """Train the ensemble, without calibration.

    Requests whose first round finished them are left out (see ``survival``). Every member holds
    out a random ``stop_fraction`` of the prompts, its own, on which it picks its best epoch.

    With ``start``, each member goes on from the weights of that refiner's, whose normalisation is
    kept, and epoch 0, before any step, is one it may pick: a member that learns nothing from the
    examples stays as it is. Durations beyond the horizon of ``start`` extend it; the new rounds
    share the hazard of its last one until the examples say otherwise.

    Args:
        examples: training requests of any finish reason.
        settings: shape and training of the networks.
        seed: the same examples and seed give the same weights on the same machine.
        progress: told about epochs.
        start: refiner of the same shape as ``settings``; None: weights are drawn.

    Raises:
        TrainingError: fewer than two distinct prompts, one for training and one for stopping, or
            training diverged.
    """
    usable = examples.take(examples.durations > 0)
    if len(np.unique(usable.prompt)) < 2:
        raise TrainingError("the refiner needs two distinct prompts of more than one round")
    events = usable.events(settings.duration)
    labels = LabelTransform.fit(usable.durations)
    if start is not None:
        labels = LabelTransform(max(labels.horizon, start.horizon))
    durations, events = labels.transform(usable.durations, events)
    seeds = [int(s) for s in np.random.SeedSequence(seed).generate_state(settings.members)]
    generators = [torch.Generator().manual_seed(s) for s in seeds]
    if start is None:
        normalisation = Normalisation.fit(usable.hidden, usable.prompt_tokens, usable.budget_tokens)
        population = torch.from_numpy(kaplan_meier_logits(durations, events, labels.horizon))
        basis = torch.from_numpy(hazard_basis(labels.horizon, settings.hazard_knots))
        hidden_sizes = [usable.hidden.shape[1] + 2, *[settings.width] * settings.layers]
        network = MemberMLP(settings.members, [*hidden_sizes, len(basis)], generators)
        with torch.no_grad():
            # Outputs begin near the population's hazards.
            network.last_weight.mul_(0.1)
    else:
        normalisation = start.normalisation
        own = torch.from_numpy(hazard_basis(start.horizon, settings.hazard_knots))
        network = _unfolded(start.network, own)
        basis = _extended(own, labels.horizon)
        population = _extended(start.network.last_bias.detach(), labels.horizon)
    data = _Data(
        inputs=normalisation.apply(
            torch.from_numpy(usable.hidden),
            torch.from_numpy(usable.prompt_tokens),
            torch.from_numpy(usable.budget_tokens),
        ),
        durations=torch.from_numpy(durations),
        events=torch.from_numpy(events),
        basis=basis,
        population=population.float(),
    )
    folds = max(2, round(1 / settings.stop_fraction))
    held_out = torch.stack(
        [torch.from_numpy(group_folds(usable.prompt, folds, s) == 0) for s in seeds]
    )
    with one_thread():
        _train(network, data, held_out, generators, settings, progress, start is not None)
        return Refiner(_fold(network, data, labels.horizon), normalisation)


@torch.no_grad()
def _unfolded(folded: MemberMLP, basis: Tensor) -> MemberMLP:
    """The network in training form that :func:`_fold` makes ``folded`` of; its bias goes apart.

    Exact where ``folded`` was trained with this basis; otherwise, as for a network whose horizon
    was extended before, its last layer is the nearest one that the basis can draw.
    """
    weights = [folded.get_parameter(f"{name}_weight") for name in folded.layers]
    sizes = [*(weight.shape[1] for weight in weights), len(basis)]
    network = MemberMLP(folded.members, sizes, generators=None)
    for name in folded.layers[:-1]:
        for part in ("weight", "bias"):
            network.get_parameter(f"{name}_{part}").copy_(folded.get_parameter(f"{name}_{part}"))
    network.last_weight.copy_(folded.last_weight.double() @ torch.linalg.pinv(basis.double()))
    return network


def _extended(values: Tensor, horizon: int) -> Tensor:
    """Repeat the last of the columns ``[..., K]`` for the rounds up to ``horizon``."""
    beyond = horizon - values.shape[-1]
    return torch.cat([values, values[..., -1:].expand(*values.shape[:-1], beyond)], dim=-1)


@torch.no_grad()
def _fold(network: MemberMLP, data: _Data, horizon: int) -> MemberMLP:
    """Multiply basis and population hazards into the last layer."""
    weights = [network.get_parameter(f"{name}_weight") for name in network.layers]
    sizes = [*(weight.shape[1] for weight in weights), horizon]
    folded = MemberMLP(network.members, sizes, generators=None)
    for kept, parameter in zip(folded.parameters(), network.parameters(), strict=True):
        if kept.shape == parameter.shape:
            kept.copy_(parameter)
    folded.last_weight.copy_(network.last_weight @ data.basis)
    folded.last_bias.copy_(network.last_bias @ data.basis + data.population)
    return folded


def out_of_fold_means(
    examples: Examples,
    settings: RefinerSettings,
    seed: int,
    progress: Progress = SILENT,
    start: Refiner | None = None,
) -> NDArray[np.float64]:
    """Raw expected remaining rounds of each request from networks that did not see its prompt.

    Trains one ensemble of ``settings.members`` per fold of the prompts, from ``start`` on, which
    must not have seen them either.

    Returns:
        float64 ``[n]``.
    """
    folds = group_folds(examples.prompt, settings.calibration_folds, seed)
    seeds = np.random.SeedSequence(seed).generate_state(settings.calibration_folds)
    means = np.empty(len(examples))
    with progress.task("calibrating refiner", len(seeds)) as advance:
        for fold, fold_seed in enumerate(seeds):
            rest = examples.take(folds != fold)
            refiner = fit_refiner(rest, settings, int(fold_seed), start=start)
            means[folds == fold] = expected_remaining(refiner, examples.take(folds == fold))
            advance(1)
    return means


def fit_refiner_calibration(
    examples: Examples,
    settings: RefinerSettings,
    seed: int,
    progress: Progress = SILENT,
    start: Refiner | None = None,
) -> CalibrationMap | None:
    """Fit the calibration map on out-of-fold predictions for the training requests.

    ``start`` is what the refiner was trained from. Only requests whose duration is known take
    part. With ``duration: budget_free`` there is no map (None): the longest durations are
    censored, so that the known ones are biased short and a map fitted on them would undo what the
    likelihood got right.
    """
    if settings.duration == "budget_free":
        return None
    known = (examples.durations > 0) & examples.finished
    means = out_of_fold_means(examples, settings, seed, progress, start)
    return fit_calibration(means[known], examples.durations[known])


@one_thread()
def expected_remaining(
    refiner: Refiner, examples: Examples, calibrated: bool = False
) -> NDArray[np.float64]:
    """Predict remaining rounds of each request, float64 ``[n]``."""
    remaining = refiner(examples.hidden, examples.prompt_tokens, examples.budget_tokens)
    return remaining.mean(calibrated).double().cpu().numpy()


@dataclass(frozen=True)
class _Data:
    """What is trained on; ``population`` are logits that are not trained, ``[K]`` for all members
    alike or ``[members, 1, K]``."""

    inputs: Tensor
    durations: Tensor
    events: Tensor
    basis: Tensor
    population: Tensor

    def loss(self, outputs: Tensor, rows: Tensor) -> Tensor:
        """Negative log-likelihood of ``rows``, both ``[members, batch]``."""
        logits = outputs @ self.basis + self.population
        return nll_logistic_hazard(logits, self.durations[rows], self.events[rows])


def _train(
    network: MemberMLP,
    data: _Data,
    held_out: Tensor,
    generators: list[torch.Generator],
    settings: RefinerSettings,
    progress: Progress,
    started: bool,
) -> None:
    """Train all members in place; each ends with the weights of its best epoch.

    ``held_out`` is bool ``[members, n]``; with ``started``, the weights that are there count as
    those of an epoch. A member that ran out of patience keeps computing, which
    cannot change its best weights, until all have stopped. Raises TrainingError when a member
    never had a finite held-out loss.
    """
    train_rows, _ = _aligned(~held_out)
    stop_rows, stop_weights = _aligned(held_out)
    optimizer = torch.optim.AdamW(
        network.parameters(),
        lr=settings.learning_rate,
        weight_decay=settings.weight_decay,
        fused=True,
    )
    best = torch.full((network.members,), torch.inf)
    if started:
        best = _held_out_loss(network, data, stop_rows, stop_weights)
    best_weights = [p.detach().clone() for p in network.parameters()]
    stale = torch.zeros(network.members, dtype=torch.int64)
    with progress.task("training refiner", settings.epochs) as advance:
        for epoch in range(settings.epochs):
            _train_epoch(network, optimizer, data, train_rows, generators, settings)
            loss = _held_out_loss(network, data, stop_rows, stop_weights)
            running = stale < settings.patience
            improved = (loss < best) & running
            best = torch.where(improved, loss, best)
            stale = torch.where(improved, 0, stale + 1)
            for kept, parameter in zip(best_weights, network.parameters(), strict=True):
                kept[improved] = parameter.detach()[improved]
            advance(1)
            if not bool((stale < settings.patience).any()):
                advance(settings.epochs - 1 - epoch)
                break
    if not bool(best.isfinite().all()):
        raise TrainingError(
            f"the refiner's training diverged with predictors.refiner.learning_rate="
            f"{settings.learning_rate:g}: its held-out loss was never a finite number. Lower "
            "predictors.refiner.learning_rate."
        )
    with torch.no_grad():
        for kept, parameter in zip(best_weights, network.parameters(), strict=True):
            parameter.copy_(kept)


def _train_epoch(
    network: MemberMLP,
    optimizer: torch.optim.Optimizer,
    data: _Data,
    rows: Tensor,
    generators: list[torch.Generator],
    settings: RefinerSettings,
) -> None:
    shuffled = torch.stack(
        [
            row[torch.randperm(len(row), generator=g)]
            for row, g in zip(rows, generators, strict=True)
        ]
    )
    for batch in torch.split(shuffled, settings.batch_size, dim=1):
        masks = dropout_masks(
            generators, batch.shape[1], settings.width, settings.layers, settings.dropout
        )
        loss = data.loss(network(data.inputs[batch], masks), batch)
        optimizer.zero_grad()
        # A sum over members: each member's gradient is that of its own mean.
        loss.mean(1).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()


@torch.no_grad()
def _held_out_loss(network: MemberMLP, data: _Data, rows: Tensor, weights: Tensor) -> Tensor:
    loss = data.loss(network(data.inputs[rows]), rows)
    return (loss * weights).sum(1) / weights.sum(1)


def _aligned(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Row numbers of each member's selection, ``[members, longest]``, and weights for them.

    Selections differ in length when prompts repeat: shorter ones start over, with weight 0.
    """
    selections = [row.nonzero().squeeze(1) for row in mask]
    positions = torch.arange(max(len(selection) for selection in selections))
    rows = torch.stack([selection[positions % len(selection)] for selection in selections])
    weights = torch.stack([(positions < len(selection)).float() for selection in selections])
    return rows, weights
