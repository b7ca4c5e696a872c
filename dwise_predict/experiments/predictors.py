"""Table 9: regressors for the admission predictor on the same three prompt features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dwise_predict.evaluation.predictors import fit_finished_admission
from dwise_predict.experiments.base import base_of
from dwise_predict.experiments.engines import torch_engine
from dwise_predict.experiments.experiment import Column, Experiment
from dwise_predict.experiments.plots import bars
from dwise_predict.experiments.settings import Settings
from dwise_predict.experiments.study import Answer, Study, base_work, computed_work
from dwise_predict.experiments.timing import TIMED, median_ms
from dwise_predict.experiments.values import Value
from dwise_predict.experiments.work import Stage, Work
from dwise_predict.predictors.examples import Examples, group_folds
from dwise_predict.predictors.features import feature_matrix
from dwise_predict.rank import spearman
from dwise_predict.recipe import AdmissionSettings, PredictorSettings
from dwise_predict.workload.schema import Request, newline_count, word_count

FOLDS = 5

Predict = Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]
Fit = Callable[[Examples, int], Predict]
"""Trains on examples with a seed; what it returns predicts rounds from features [n, 3]."""


def _features(examples: Examples) -> npt.NDArray[np.float64]:
    return feature_matrix(examples.words, examples.newlines, examples.prompt_tokens)


def _regressor(make: Callable[[int], Any]) -> Fit:
    """A regressor of scikit-learn's interface on the logarithm of rounds, as ours."""

    def fit(examples: Examples, seed: int) -> Predict:
        model = make(seed)
        model.fit(_features(examples), np.log(examples.rounds))

        def predict(features: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
            return np.exp(np.asarray(model.predict(features), dtype=np.float64))

        return predict

    return fit


def _ridge(seed: int) -> Any:
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), Ridge())


def _mlp(seed: int) -> Any:
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    network = MLPRegressor(
        hidden_layer_sizes=(256, 256), early_stopping=True, max_iter=500, random_state=seed
    )
    return make_pipeline(StandardScaler(), network)


def _xgboost(seed: int) -> Any:
    from xgboost import XGBRegressor

    return XGBRegressor(n_estimators=100, max_depth=6, random_state=seed, n_jobs=1)


def _extra_trees(seed: int) -> Any:
    from sklearn.ensemble import ExtraTreesRegressor

    return ExtraTreesRegressor(n_estimators=100, random_state=seed, n_jobs=1)


def _lightgbm(trees: int, leaves: int) -> Fit:
    """LightGBM's own predictions, as other people would call it."""

    def fit(examples: Examples, seed: int) -> Predict:
        import lightgbm

        settings = PredictorSettings(admission=AdmissionSettings(trees=trees, leaves=leaves))
        booster = lightgbm.Booster(model_str=fit_finished_admission(examples, settings, seed).text)

        def predict(features: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
            return np.asarray(np.exp(booster.predict(features, num_threads=1)))

        return predict

    return fit


def _ours(examples: Examples, seed: int) -> Predict:
    predictor = fit_finished_admission(examples, PredictorSettings(), seed)

    def predict(features: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        if len(features) > 1:
            return predictor.rounds_batch(*features.T)
        words, newlines, prompt_tokens = features[0].tolist()
        rounds = predictor.rounds(words=words, newlines=newlines, prompt_tokens=prompt_tokens)
        return np.array([rounds])

    return predict


OURS = "DWISE: the same, as a table of steps"
FITS: dict[str, Fit] = {
    "Ridge": _regressor(_ridge),
    "MLP (256–256)": _regressor(_mlp),
    "XGBoost (100, depth 6)": _regressor(_xgboost),
    "LightGBM (500, 31 leaves)": _lightgbm(500, 31),
    "LightGBM (1,000, 63 leaves)": _lightgbm(1000, 63),
    "ExtraTrees (100)": _regressor(_extra_trees),
    "LightGBM (100, 15 leaves)": _lightgbm(100, 15),
    OURS: _ours,
}


def cross_validated(fit: Fit, examples: Examples, seed: int) -> float:
    """Rank correlation with true rounds of predictions for requests not trained on, 0 if none."""
    folds = group_folds(examples.prompt, FOLDS, seed)
    predicted = np.empty(len(examples))
    for fold in range(FOLDS):
        held_out = folds == fold
        predict = fit(examples.take(~held_out), seed)
        predicted[held_out] = predict(_features(examples.take(held_out)))
    return spearman(predicted, examples.rounds) or 0.0


def compare(settings: Settings, seed: int) -> Answer:
    """Quality and time of every regressor on the training requests of a seed."""
    base = base_of(settings, seed)
    examples = base.examples.take(base.in_training & base.examples.finished)
    encode = torch_engine(settings.recipe_of(seed)).encode
    asked = base.requests[:TIMED]

    def features_of(request: Request) -> npt.NDArray[np.float64]:
        text, tokens = request.text, len(encode(request.messages))
        return feature_matrix([word_count(text)], [newline_count(text)], [tokens])

    features = [features_of(request) for request in asked]
    found: Answer = {}
    for name, fit in FITS.items():
        predict = fit(examples, seed)

        def from_text(request: Request, predict: Predict = predict) -> object:
            return predict(features_of(request))

        found[name] = {
            "spearman": cross_validated(fit, examples, seed),
            "request_ms": median_ms(from_text, asked),
            "predict_ms": median_ms(predict, features),
        }
    return found


def _work(settings: Settings) -> list[Work]:
    seeds = range(settings.seeds)
    return base_work(settings, seeds) + computed_work(
        settings, EXPERIMENT.name, seeds, compare, Stage.ALONE
    )


def _measure(study: Study) -> list[Value]:
    return study.answers(EXPERIMENT.name, study.seeds)


EXPERIMENT = Experiment(
    name="predictors",
    source="Table 9",
    title="Regressors for the admission predictor",
    columns=(
        Column("spearman", "Spearman", ".3f"),
        Column("request_ms", "ms a request", ".3f"),
        Column("predict_ms", "of these prediction", ".4f"),
    ),
    work=_work,
    measure=_measure,
    plot=bars("spearman", "Spearman correlation with true rounds"),
    differences="""\
Correlations are of five-fold cross-validation on the training requests that finished. All
regressors are far from the paper's, because size features say little of this workload
([signals](signals.md)). Trees find the little there is, a line and an MLP less of it; which trees
are best is a matter of noise. What carries over is the cost: small LightGBM models predict faster
than anything else, forests take many times as long. The last row is the predictor of a bundle,
the same trees as the row before it, turned into a table of steps: predicting takes microseconds,
so that nearly all of the time is tokenisation, which the tiny model's tokenizer does quickly.""",
    not_with={"sglang": "no engine serves the regressors: run it with --engine simulator"},
)
