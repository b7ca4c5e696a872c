"""What each policy is told about the requests of a run, replayed or live."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from dwise_predict.baselines import METHODS, train_run_baselines
from dwise_predict.baselines.settings import Method
from dwise_predict.engines.protocol import Refine, Refinement, RoundHidden, Watch
from dwise_predict.engines.refinement import refine_with
from dwise_predict.evaluation.predictors import fit_finished_admission, fit_predictors
from dwise_predict.experiments.base import Asked, Base, base_of
from dwise_predict.experiments.case import Case, Estimates
from dwise_predict.experiments.measures import is_choice
from dwise_predict.experiments.recordings import block_starts, recorded_rounds
from dwise_predict.experiments.settings import Settings
from dwise_predict.predictors.admission import AdmissionPredictor
from dwise_predict.predictors.fitting import fit_refiner_calibration
from dwise_predict.predictors.refiner import Refiner
from dwise_predict.serving import Told
from dwise_predict.simulation.estimates import TARGETS
from dwise_predict.simulation.predictions import Predictions
from dwise_predict.simulation.run import Setup
from dwise_predict.simulation.workload import FloatArray

Due = Callable[[int, bool], bool]
"""Whether to estimate anew after a round: denoising rounds before it, and whether it was the
first of its block."""

REPEATED: Mapping[Estimates, Due] = {
    "every block": lambda rounds, block_start: block_start,
    "every 4 rounds": lambda rounds, block_start: rounds % 4 == 0,
    "every round": lambda rounds, block_start: True,
}


def train_baselines(settings: Settings, seed: int) -> None:
    """Train all learned baselines on the profile of a seed."""
    train_run_baselines(settings.base(seed).path)


def setup_of(settings: Settings, seed: int, case: Case) -> Setup:
    """Policy and former, with options that belong to what was learned."""
    setup, kind = case.scheduling.setup, case.scheduling.estimates
    if kind not in METHODS:
        return setup
    return replace(setup, options=base_of(settings, seed).baselines.policy_options(kind))


def told(settings: Settings, seed: int, case: Case, asked: Asked) -> Told | None:
    """For the built-in engine; None where the policy needs nothing."""
    base, kind = base_of(settings, seed, case.budget), case.scheduling.estimates
    if kind == "nothing":
        return None
    if kind in METHODS:
        return base.baselines.told(kind, asked.requests)
    if kind in ("prefill", "truth"):
        return Told(_known(asked, kind))
    admission, refiner = _predictors(settings, base, kind)
    estimates = base.estimated_by(admission, asked)
    if kind == "admission":
        return Told(estimates)
    if kind in REPEATED:
        return Told(estimates, watch=_repeated(refiner, REPEATED[kind]))
    return Told(estimates, refine=refine_with(refiner))


def predictions(settings: Settings, seed: int, case: Case, asked: Asked) -> Predictions:
    """For the simulator."""
    base, kind = base_of(settings, seed, case.budget), case.scheduling.estimates
    if kind == "nothing":
        return Predictions(np.zeros(len(asked)))
    if kind in METHODS:
        return _learned(settings, base, kind, asked)
    if kind in ("prefill", "truth"):
        return Predictions(_known(asked, kind))
    admission, refiner = _predictors(settings, base, kind)
    estimates = base.estimated_by(admission, asked)
    if kind == "admission":
        return Predictions(estimates)
    if kind in REPEATED:
        return _replayed(settings, seed, estimates, refiner, REPEATED[kind], asked)
    rows = asked.source.rows
    assert rows is not None
    return Predictions(estimates, _remaining(refiner, base.profile.hidden[rows], base, rows))


def _learned(settings: Settings, base: Base, method: Method, asked: Asked) -> Predictions:
    rounds = None
    if method == "trail":
        ids = base.profile.requests["request_id"].take(asked.source.rows).to_pylist()
        rounds = recorded_rounds(settings, base.seed).of(ids)
    predictor = base.baselines.simulated(method, asked.source, base.requests, rounds)
    return predictor.predict(asked.source.workload(), TARGETS[method])


def _known(asked: Asked, kind: Estimates) -> FloatArray:
    """True rounds, or none at all, which leaves the prefill blocks."""
    if kind == "prefill":
        return np.zeros(len(asked))
    return asked.source.workload().rounds.astype(np.float64)


def _predictors(
    settings: Settings, base: Base, kind: Estimates
) -> tuple[AdmissionPredictor, Refiner]:
    if kind == "held out":
        return _without_choice(settings, base)
    refiner = base.bundle.refiner
    if kind == "extended":
        return _extended(settings, base), refiner
    return base.bundle.admission, refiner.calibrated(None) if kind == "raw" else refiner


def _extended(settings: Settings, base: Base) -> AdmissionPredictor:
    """The admission predictor with the features ``extended``."""
    training = settings.recipe.predictors
    features = training.admission.model_copy(update={"features": "extended"})
    train = base.examples.take(base.in_training)
    extended = training.model_copy(update={"admission": features})
    return fit_finished_admission(train, extended, base.seed)


def _without_choice(settings: Settings, base: Base) -> tuple[AdmissionPredictor, Refiner]:
    """Both predictors, trained without multiple choice as the bundle is with it."""
    choice = np.array([is_choice(name) for name in base.examples.category])
    rest = base.examples.take(base.in_training & ~choice)
    training = settings.recipe.predictors
    fitted = fit_predictors(rest, training, base.seed)
    calibration = fit_refiner_calibration(rest, training.refiner, base.seed)
    return fitted.admission, fitted.refiner.calibrated(calibration)


def _remaining(
    refiner: Refiner, means: npt.NDArray[np.float16], base: Base, rows: npt.NDArray[np.int64]
) -> FloatArray:
    examples = base.examples
    remaining = refiner(means, examples.prompt_tokens[rows], examples.budget_tokens[rows])
    return remaining.mean().numpy().astype(np.float64)


def _repeated(refiner: Refiner, due: Due) -> Watch:
    """Refines whenever ``due``, from the hidden means of that round."""
    refine: Refine = refine_with(refiner)

    def watch(seen: RoundHidden) -> Mapping[str, Refinement]:
        chosen = [
            row
            for row, is_prompt in enumerate(seen.prefilling)
            if not is_prompt and due(seen.rounds[row], seen.block_rounds[row] == 0)
        ]
        if not chosen:
            return {}
        requests = [seen.requests[row] for row in chosen]
        answers: Sequence[Refinement] = refine(seen.means[chosen], requests)
        return {r.request_id: answer for r, answer in zip(requests, answers, strict=True)}

    return watch


def _replayed(
    settings: Settings, seed: int, admission: FloatArray, refiner: Refiner, due: Due, asked: Asked
) -> Predictions:
    """The same from recorded rounds."""
    base, rows = base_of(settings, seed), asked.source.rows
    assert rows is not None
    recorded = recorded_rounds(settings, seed)
    counts, starts = recorded.counts, recorded.starts
    left = _remaining(refiner, recorded.means, base, np.repeat(np.arange(len(counts)), counts))
    first = block_starts(recorded)

    def reestimate(index: int, rounds: int, block_done: bool) -> float | None:
        row = int(starts[rows[index]]) + rounds - 1
        return float(left[row]) if due(rounds - 1, bool(first[row])) else None

    return Predictions(admission, reestimate=reestimate)
