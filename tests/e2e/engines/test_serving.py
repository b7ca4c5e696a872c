"""``serve_workload``: the engine's results are the simulator's, but for the clock."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pytest

from dwise_predict.bundle import PredictorBundle
from dwise_predict.engines.recording import engine_request
from dwise_predict.engines.refinement import refine_with
from dwise_predict.engines.torch_engine.engine import TorchEngine
from dwise_predict.errors import EngineError, IncompatibleBundleError
from dwise_predict.predictors.admission import fit_admission
from dwise_predict.predictors.features import feature_matrix
from dwise_predict.recipe import AdmissionSettings, PredictorSettings, load_recipe
from dwise_predict.results import Results
from dwise_predict.results.records import ESTIMATES, REQUESTS_SCHEMA, ROUNDS_SCHEMA
from dwise_predict.scheduling import ResidencyLimits, RoundCost
from dwise_predict.serving import Told, serve_workload
from dwise_predict.simulation.estimates import Target
from dwise_predict.simulation.predictions import Predictions
from dwise_predict.simulation.run import Arrivals, Setup, simulate
from dwise_predict.simulation.sources.source import FACTS_SCHEMA, Source
from dwise_predict.simulation.workload import SimulatedWorkload
from dwise_predict.workload.builtin import builtin_workload

LIMITS = ResidencyLimits(slots=6, block_size=16, multiplier=4, kv_tokens=4_000)
COST = RoundCost(2.0, 0.5, 0.001)
REQUESTS = builtin_workload(0, 24, seed=9)
BURST = Arrivals("burst", np.zeros(len(REQUESTS)))
SETUPS = {
    "fcfs": Setup("fcfs", "prefill_first"),
    "dwise": Setup("dwise", "mixed_phase"),
    "by time": Setup("dwise", "mixed_phase", {"unit": "time", "hysteresis": 0.2}),
}
COLUMNS = ("slots", "prefill_slots", "kv_tokens", "residents", "waiting")


@lru_cache
def engine() -> TorchEngine:
    recipe = load_recipe("tiny")
    slots = {"slots": LIMITS.slots}
    return TorchEngine.load(recipe.model, recipe.engine.model_copy(update=slots), recipe.decoding)


@lru_cache
def bundle() -> PredictorBundle:
    return PredictorBundle.from_pretrained("tiny")


@lru_cache
def served(name: str) -> Results:
    return serve_workload(
        REQUESTS, engine(), SETUPS[name], LIMITS, BURST, 64, COST, bundle=bundle()
    )


@dataclass
class AsTold:
    """What the served policy was told."""

    results: Results
    name: str = "as told"

    def predict(self, workload: SimulatedWorkload, target: Target) -> Predictions:
        requests = self.results.requests
        if target == "nothing":
            return Predictions(np.zeros(len(workload)))
        refined = np.nan_to_num(requests["refined_estimate"].to_numpy())
        return Predictions(requests["admission_estimate"].to_numpy(), refined)


@pytest.mark.parametrize("name", SETUPS)
def test_a_simulation_of_the_same_requests_has_the_same_rounds(name: str) -> None:
    ours = served(name)
    source = Source("served", 16, ours.requests.select(FACTS_SCHEMA.names).cast(FACTS_SCHEMA))
    simulated = simulate(source, BURST, SETUPS[name], LIMITS, COST, AsTold(ours))
    assert ours.rounds.schema == simulated.rounds.schema == ROUNDS_SCHEMA
    assert ours.requests.schema == simulated.requests.schema == REQUESTS_SCHEMA
    for column in COLUMNS:
        assert ours.rounds[column].to_pylist() == simulated.rounds[column].to_pylist()
    for column in ("admission_estimate", "refined_estimate"):
        assert ours.requests[column].to_pylist() == simulated.requests[column].to_pylist()
    for figure in ("n", "rounds", "filled_slots", "preemptions_per_request", "reached_zero"):
        assert getattr(ours.summary, figure) == getattr(simulated.summary, figure), figure
    assert ours.summary.engine == "torch"


def test_policies_serve_the_same_answers_in_different_rounds() -> None:
    stock, ours = served("fcfs"), served("dwise")
    for column in ("request_id", "rounds_per_block", "output_tokens", "answer_correct"):
        assert ours.requests[column].to_pylist() == stock.requests[column].to_pylist()
    assert ours.summary.rounds < stock.summary.rounds
    assert stock.requests["admission_estimate"].null_count == len(REQUESTS)
    assert ours.requests["admission_estimate"].null_count == 0
    # Estimates are the bundle's own, matched to the right request.
    first = ours.requests.slice(0, 1).to_pylist()[0]
    assert first["admission_estimate"] == pytest.approx(
        bundle().admission.rounds(
            **{name: first[name] for name in ("words", "newlines", "prompt_tokens")}
        )
    )
    rounds = np.array(ours.requests["rounds"].to_pylist())
    refined = ours.requests["refined_estimate"].to_numpy()
    told = ~np.isnan(refined)
    assert np.corrcoef(refined[told], rounds[told])[0, 1] > 0.7


def test_extended_admission_features_read_the_prompt() -> None:
    prompts = [engine_request(request, engine(), 64).prompt_ids for request in REQUESTS]
    stock = served("fcfs").requests
    columns = [stock[name].to_numpy() for name in ("words", "newlines", "prompt_tokens")]
    settings = AdmissionSettings(features="extended", min_leaf=2)
    rounds = stock["rounds"].to_numpy().astype(np.int64)
    admission = fit_admission(feature_matrix(*columns, prompts), rounds, settings, seed=0)
    extended = PredictorBundle.create(
        bundle().config.fingerprint,
        PredictorSettings(admission=settings),
        0,
        admission,
        bundle().refiner,
        bundle().metrics,
        bundle().provenance,
    )
    ours = serve_workload(
        REQUESTS, engine(), SETUPS["dwise"], LIMITS, BURST, 64, COST, bundle=extended
    )
    told = ours.requests["admission_estimate"].to_numpy()
    np.testing.assert_array_equal(told, admission.rounds_batch(*columns, prompts))
    assert np.corrcoef(np.log(told), np.log(rounds))[0, 1] > 0.9
    assert ours.requests["output_tokens"].to_pylist() == stock["output_tokens"].to_pylist()


def test_says_why_a_policy_cannot_be_served() -> None:
    with pytest.raises(EngineError, match="policy dwise ranks by predicted rounds: give a bundle"):
        serve_workload(REQUESTS, engine(), SETUPS["dwise"], LIMITS, BURST, 64, COST)
    ssjf = Setup("ssjf", "prefill_first")
    with pytest.raises(EngineError, match="policy ssjf ranks by output tokens"):
        serve_workload(REQUESTS, engine(), ssjf, LIMITS, BURST, 64, COST, bundle=bundle())


def test_whoever_tells_the_same_gets_the_same_rounds() -> None:
    ours = served("dwise")
    admission = ours.requests["admission_estimate"].to_numpy()
    told = Told(admission, refine_with(bundle().refiner))
    setup = SETUPS["dwise"]
    again = serve_workload(REQUESTS, engine(), setup, LIMITS, BURST, 64, COST, told=told)
    assert again.rounds.select(COLUMNS).equals(ours.rounds.select(COLUMNS))
    for name in ESTIMATES:
        assert again.requests[name].equals(ours.requests[name])
    with pytest.raises(EngineError, match="bundle or told"):
        serve_workload(
            REQUESTS, engine(), setup, LIMITS, BURST, 64, COST, bundle=bundle(), told=told
        )


def test_output_tokens_can_be_told_too() -> None:
    """Whoever is told to need least goes first; refined estimates stay unknown."""
    shortest = np.arange(len(REQUESTS), 0, -1, dtype=np.float64)
    results = serve_workload(
        REQUESTS, engine(), Setup("ssjf", "mixed_phase"), LIMITS, BURST, 64, COST,
        told=Told(shortest),
    )  # fmt: skip
    assert results.requests["admission_estimate"].to_numpy().tolist() == shortest.tolist()
    assert results.requests["refined_estimate"].null_count == len(REQUESTS)
    assert results.summary.reached_zero == 0
    admitted = results.requests["admitted_s"].to_numpy()
    assert admitted[: LIMITS.slots].min() > admitted[-LIMITS.slots :].max()


def test_refuses_a_bundle_of_another_model() -> None:
    other = TorchEngine(
        engine().checkpoint,
        engine().algorithm,
        engine().settings,
        engine().fingerprint.model_copy(update={"model": "local:other", "revision": "0" * 64}),
    )
    with pytest.raises(IncompatibleBundleError):
        serve_workload(REQUESTS, other, SETUPS["dwise"], LIMITS, BURST, 64, COST, bundle=bundle())
