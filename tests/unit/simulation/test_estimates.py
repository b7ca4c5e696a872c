from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from dwise_predict.errors import SimulationError
from dwise_predict.scheduling import POLICIES
from dwise_predict.simulation.estimates import (
    TARGETS,
    TOLERANCE,
    NoisyOracle,
    Oracle,
    Untold,
    disturbed,
)
from dwise_predict.simulation.sources import synthetic_source
from dwise_predict.simulation.workload import SimulatedWorkload


@pytest.fixture(scope="module")
def requests() -> SimulatedWorkload:
    return synthetic_source(600, seed=3).workload()


def test_every_policy_has_a_target() -> None:
    assert set(TARGETS) == set(POLICIES)


@settings(deadline=None, max_examples=30)
@given(st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_disturbed_values_have_the_correlation_asked_for(correlation: float, seed: int) -> None:
    truth = synthetic_source(800, seed=1).workload().rounds
    estimates = disturbed(truth, correlation, np.random.default_rng(seed))
    assert abs(spearmanr(estimates, truth).statistic - correlation) <= TOLERANCE
    assert sorted(estimates) == sorted(truth)


def test_full_correlation_is_the_truth() -> None:
    truth = np.array([5, 1, 1, 9, 3])
    assert disturbed(truth, 1.0, np.random.default_rng(0)).tolist() == truth.tolist()


def test_a_correlation_out_of_reach_is_refused() -> None:
    with pytest.raises(SimulationError, match=r"2 requests came to a rank correlation of"):
        disturbed(np.array([1, 2]), 0.5, np.random.default_rng(0))
    with pytest.raises(SimulationError, match="all requests need the same"):
        disturbed(np.array([3, 3, 3]), 0.5, np.random.default_rng(0))
    with pytest.raises(SimulationError, match=r"between 0 and 1, not at 1\.5"):
        disturbed(np.array([1, 2]), 1.5, np.random.default_rng(0))


def test_noise_repeats_with_its_seed_and_differs_between_stages(
    requests: SimulatedWorkload,
) -> None:
    first = NoisyOracle(0.7, 0.9, seed=5).predict(requests, "rounds")
    again = NoisyOracle(0.7, 0.9, seed=5).predict(requests, "rounds")
    other = NoisyOracle(0.7, 0.9, seed=6).predict(requests, "rounds")
    assert first.admission.tolist() == again.admission.tolist() != other.admission.tolist()
    assert first.refined is not None
    assert spearmanr(first.refined, requests.rounds).statistic == pytest.approx(0.9, abs=0.02)
    assert NoisyOracle(0.7).predict(requests, "rounds").refined is None


def test_the_oracle_tells_what_each_policy_ranks_by(requests: SimulatedWorkload) -> None:
    assert Oracle().predict(requests, "rounds").admission.tolist() == requests.rounds.tolist()
    tokens = Oracle().predict(requests, "output_tokens")
    assert tokens.admission.tolist() == requests.output_tokens.tolist()
    assert tokens.reestimate is None
    assert not Oracle().predict(requests, "nothing").admission.any()


@pytest.mark.parametrize("predictor", [Oracle(), NoisyOracle(0.6)])
def test_tokens_left_fall_block_by_block_to_the_end(
    requests: SimulatedWorkload, predictor: Oracle | NoisyOracle
) -> None:
    told = predictor.predict(requests, "output_tokens_left")
    assert told.reestimate is not None
    for index in range(50):
        blocks = requests.rounds_per_block[index]
        scale = told.admission[index] / requests.output_tokens[index]
        done, left = 0, [float(told.admission[index])]
        for rounds in blocks:
            for k in range(rounds):
                done += 1
                answer = told.reestimate(index, done, k == rounds - 1)
                if answer is not None:
                    left.append(answer)
        assert left == sorted(left, reverse=True)
        size = requests.block_size
        free = size - requests.prompt_tokens[index] % size
        # The budget may end inside the last block, never before it.
        last = requests.output_tokens[index] - free - size * (len(blocks) - 2)
        assert left[-1] == 0
        if len(blocks) > 1:
            assert left[-2] == pytest.approx(scale * last)


def test_nothing_cannot_serve_a_policy_that_wants_estimates(requests: SimulatedWorkload) -> None:
    with pytest.raises(SimulationError, match="needs estimates of output tokens"):
        Untold().predict(requests, "output_tokens")
