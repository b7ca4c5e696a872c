from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dwise_predict.errors import SimulationError
from dwise_predict.results import REQUESTS_SCHEMA, ROUNDS_SCHEMA, Results
from dwise_predict.scheduling import ResidencyLimits, RoundCost
from dwise_predict.simulation.estimates import NoisyOracle, Oracle, Predictor, Untold
from dwise_predict.simulation.run import Arrivals, Setup, simulate
from dwise_predict.simulation.sources import Source, synthetic_source
from dwise_predict.simulation.timeline import Timeline

LIMITS = ResidencyLimits(8, 32)
COST = RoundCost(10.0, 0.41, 0.00096)


@pytest.fixture(scope="module")
def source() -> Source:
    return synthetic_source(80, seed=2)


def run(
    source: Source,
    setup: Setup,
    predictor: Predictor | None = None,
    limits: ResidencyLimits = LIMITS,
    timeline: Timeline | None = None,
) -> Results:
    arrivals = Arrivals("burst", np.zeros(len(source)))
    return simulate(source, arrivals, setup, limits, COST, predictor or Oracle(), timeline=timeline)


@pytest.mark.parametrize("former", ["prefill_first", "mixed_phase", "single_phase"])
@pytest.mark.parametrize(
    "policy", ["fcfs", "hrrn", "mlfq", "ssjf", "s3", "ltr", "trail", "dwise", "oracle"]
)
def test_every_policy_serves_everything_on_every_former(
    source: Source, policy: str, former: str
) -> None:
    results = run(source, Setup(policy, former))  # type: ignore[arg-type]
    requests, summary = results.requests, results.summary
    assert requests.schema.equals(REQUESTS_SCHEMA)
    assert results.rounds.schema.equals(ROUNDS_SCHEMA)
    times = np.array(
        [
            requests[name].to_numpy()
            for name in ("arrival_s", "admitted_s", "first_round_s", "first_block_s", "finished_s")
        ]
    )
    assert (np.diff(times, axis=0) >= 0).all()
    assert requests["rounds"].equals(source.facts["rounds"])
    assert (summary.policy, summary.former, summary.engine) == (policy, former, "simulator")
    assert summary.n == 80 and summary.arrival == "burst"
    assert summary.latency_s.max == pytest.approx(times[-1].max())


def test_estimates_are_recorded_as_told(source: Source) -> None:
    noisy = NoisyOracle(0.7, 0.9)
    told = noisy.predict(source.workload(), "rounds")
    requests = run(source, Setup("dwise", "mixed_phase"), noisy).requests
    assert requests["admission_estimate"].to_numpy().tolist() == told.admission.tolist()
    refined = requests["refined_estimate"].to_pylist()
    for rounds, value, expected in zip(
        requests["rounds"].to_pylist(), refined, told.refined, strict=True
    ):
        assert value == (expected if rounds > 1 else None)
    untold = run(source, Setup("fcfs", "prefill_first"), Untold()).requests
    assert untold["admission_estimate"].null_count == 80


def test_shortest_first_beats_first_come(source: Source) -> None:
    fcfs = run(source, Setup("fcfs", "mixed_phase")).summary
    oracle = run(source, Setup("oracle", "mixed_phase")).summary
    assert oracle.latency_s.mean < fcfs.latency_s.mean
    assert oracle.reached_zero == 0


def test_zeros_of_token_estimates_are_not_counted(source: Source) -> None:
    assert run(source, Setup("ssjf", "mixed_phase")).summary.reached_zero == 0


def test_ranking_by_time_takes_the_cost_of_the_simulation(source: Source) -> None:
    setup = Setup("dwise", "mixed_phase", {"unit": "time"})
    policy = setup.scheduler(LIMITS, COST).policy
    assert (policy.cost, policy.block_size) == (COST, 32)  # type: ignore[attr-defined]
    own = replace(setup, options={"unit": "time", "cost": RoundCost(1, 1, 1), "block_size": 2})
    policy = own.scheduler(LIMITS, COST).policy
    assert (policy.cost, policy.block_size) == (RoundCost(1, 1, 1), 2)  # type: ignore[attr-defined]


def test_hysteresis_and_held_rows_reach_the_former() -> None:
    former = Setup("dwise", "mixed_phase", {"hysteresis": 0.2}).scheduler(LIMITS, COST).former
    assert former.hysteresis == 0.2  # type: ignore[attr-defined]
    former = Setup("fcfs", "prefill_first", {"held_rows": True}).scheduler(LIMITS, COST).former
    assert former.held_rows is True  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("setup", "message"),
    [
        (Setup("dwise", "mixed_phase", {"estimat": "x"}), "did you mean 'estimate'"),
        (Setup("dwise", "mixed_phase", {"aging": -1}), "aging must be positive"),
        (Setup("dwise", "mixed_phase", {"hysteresis": 1}), "hysteresis must be"),
        (Setup("dwise", "mixed_phase", {"hysteresis": "much"}), "option hysteresis: "),
        (
            Setup("fcfs", "prefill_first", {"hysteresis": 0.1}),
            "hysteresis and lean are for the formers",
        ),
        (Setup("fcfs", "mixed_phase", {"held_rows": True}), "held_rows is for the former"),
        (Setup("fcfs", "mixed_phase", {"lean": math.nan}), "option lean: .* finite number"),
        (Setup("fcfs", "mixed_phase", {"lean": math.inf}), "option lean: .* finite number"),
        (Setup("fcfs", "mixed_phase", {"lean": True}), "option lean: .* valid number"),
        (Setup("fcfs", "mixed_phase", {"hysteresis": math.nan}), "option hysteresis: .* finite"),
    ],
)
def test_impossible_setups(setup: Setup, message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        setup.scheduler(LIMITS, COST)


@pytest.mark.parametrize("options", [{"lean": 1.0}, {"unit": "time"}])
def test_what_counts_chunks_does_not_go_with_whole_prompts(
    source: Source, options: dict[str, object]
) -> None:
    setup = Setup("dwise", "mixed_phase", options)
    setup.scheduler(LIMITS, COST, 4)
    arrivals = Arrivals("burst", np.zeros(len(source)))
    with pytest.raises(SimulationError, match=r"needs chunks of one size, .* --prefill-chunk N"):
        simulate(source, arrivals, setup, LIMITS, COST, Oracle(), prefill_chunk=None)


@pytest.mark.parametrize(
    ("cost", "last_s", "message"),
    [(RoundCost(1e-320, 0, 0), 0.0, "BASE and SLOT"), (COST, 1e300, "the last request arrives")],
)
def test_times_that_cannot_be_simulated(
    source: Source, cost: RoundCost, last_s: float, message: str
) -> None:
    arrivals = Arrivals("burst", np.linspace(0, last_s, len(source)))
    with pytest.raises(SimulationError, match=message):
        simulate(source, arrivals, Setup("fcfs", "mixed_phase"), LIMITS, cost, Oracle())


def test_a_pool_too_small_for_a_request_names_it(source: Source) -> None:
    longest = source.facts["request_id"][int(np.argmax(source.facts["prompt_tokens"]))].as_py()
    small = replace(LIMITS, kv_tokens=4096)
    with pytest.raises(SimulationError, match=rf"'{longest}' reserves .* only 115 blocks"):
        run(source, Setup("dwise", "mixed_phase"), limits=small)


def test_the_timeline_holds_what_the_rounds_say(source: Source) -> None:
    timeline = Timeline()
    results = run(source, Setup("dwise", "mixed_phase"), timeline=timeline)
    state, _ = timeline.grid(0, len(timeline), 8)
    assert (state > 0).sum(axis=0).tolist() == results.rounds["slots"].to_pylist()
    assert (state == 1).sum(axis=0).tolist() == results.rounds["prefill_slots"].to_pylist()
