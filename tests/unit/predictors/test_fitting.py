from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from dwise_predict.predictors.distribution import RemainingRounds
from dwise_predict.predictors.errors import TrainingError
from dwise_predict.predictors.examples import Examples, group_folds
from dwise_predict.predictors.fitting import (
    MIN_PROMPTS,
    check_trainable,
    expected_remaining,
    fit_refiner,
    fit_refiner_calibration,
    out_of_fold_means,
)
from dwise_predict.predictors.refiner import Normalisation, Refiner
from dwise_predict.predictors.survival import survival_from_logits
from dwise_predict.rank import spearman
from dwise_predict.recipe import RefinerSettings
from tests.synthetic import synthetic_examples

SMALL = RefinerSettings(width=32, epochs=25, patience=5, batch_size=64)
TRAIN = synthetic_examples(300, seed=1, hidden=48)
UNSEEN = synthetic_examples(200, seed=2, hidden=48)


@pytest.fixture(scope="module")
def refiner() -> Refiner:
    return fit_refiner(TRAIN, SMALL, seed=0)


def predict(refiner: Refiner, examples: Examples) -> RemainingRounds:
    return refiner(examples.hidden, examples.prompt_tokens, examples.budget_tokens)


def test_it_learns_what_hidden_states_show(refiner: Refiner) -> None:
    rho = spearman(expected_remaining(refiner, UNSEEN), UNSEEN.durations)
    assert rho is not None
    assert rho > 0.75
    shuffled = replace(TRAIN, hidden=TRAIN.hidden[::-1].copy())
    blind = spearman(expected_remaining(fit_refiner(shuffled, SMALL, 0), UNSEEN), UNSEEN.durations)
    assert blind is not None
    assert blind < rho - 0.3


def test_the_kept_network_has_one_hazard_per_round_up_to_the_longest(refiner: Refiner) -> None:
    assert refiner.horizon == TRAIN.durations.max()
    assert refiner.members == 3
    assert refiner.hidden_size == 48
    assert refiner.tensors()["layer2_weight"].shape == (3, 32, refiner.horizon)


def test_same_seed_same_weights_and_another_seed_others(refiner: Refiner) -> None:
    again, other = fit_refiner(TRAIN, SMALL, 0).tensors(), fit_refiner(TRAIN, SMALL, 1).tensors()
    for name, tensor in refiner.tensors().items():
        assert tensor.tobytes() == again[name].tobytes()
    assert not np.array_equal(refiner.tensors()["layer0_weight"], other["layer0_weight"])


def test_members_differ_and_train_as_if_alone() -> None:
    """One member's weights do not depend on how many others are trained with it."""
    three = fit_refiner(TRAIN, SMALL, 0).tensors()
    one = fit_refiner(TRAIN, SMALL.model_copy(update={"members": 1}), 0).tensors()
    np.testing.assert_allclose(
        three["layer0_weight"][0], one["layer0_weight"][0], rtol=0, atol=2e-4
    )
    assert np.abs(three["layer0_weight"][0] - three["layer0_weight"][1]).max() > 0.1


def test_the_ensemble_averages_survival_curves_not_hazards(refiner: Refiner) -> None:
    inputs = refiner.normalisation.apply(
        torch.from_numpy(UNSEEN.hidden),
        torch.from_numpy(UNSEEN.prompt_tokens),
        torch.from_numpy(UNSEEN.budget_tokens),
    )
    with torch.no_grad():
        logits = refiner.network(inputs)
    members = survival_from_logits(logits)
    remaining = predict(refiner, UNSEEN)
    torch.testing.assert_close(remaining.survival(), members.mean(0))
    torch.testing.assert_close(
        remaining.mean(calibrated=False), torch.stack([m.sum(-1) for m in members]).mean(0)
    )
    hazards = torch.sigmoid(logits).mean(0)
    averaged_hazards = torch.cumprod(1 - hazards, -1)
    assert (remaining.survival()[:, 1:] - averaged_hazards).abs().max() > 1e-3


def test_requests_done_in_their_first_round_teach_the_refiner_nothing() -> None:
    done = replace(UNSEEN, rounds=np.ones_like(UNSEEN.rounds))
    both = Examples(
        **{
            name: np.concatenate([getattr(TRAIN, name), getattr(done, name)])
            for name in TRAIN.__dataclass_fields__
        }
    )
    with_done, without = (
        fit_refiner(both, SMALL, 0).tensors(),
        fit_refiner(TRAIN, SMALL, 0).tensors(),
    )
    assert with_done["layer0_weight"].tobytes() == without["layer0_weight"].tobytes()


def test_budget_counts_as_end_or_as_censoring() -> None:
    completion, free = TRAIN.events("completion"), TRAIN.events("budget_free")
    budget = TRAIN.finish_reason == "budget"
    assert budget.any()
    assert completion[budget].all()
    assert not free[budget].any()
    np.testing.assert_array_equal(completion[~budget], free[~budget])


def test_aborted_requests_are_always_censored() -> None:
    aborted = replace(TRAIN, finish_reason=np.full(len(TRAIN), "abort"))
    assert not aborted.events("completion").any()
    assert not aborted.events("budget_free").any()


def test_censoring_lengthens_what_the_refiner_expects() -> None:
    """Half the requests stop being watched half way: read as ends, durations would look short."""
    rng = np.random.default_rng(0)
    cut = rng.random(len(TRAIN)) < 0.5
    rounds = np.where(cut, np.maximum(2, TRAIN.rounds // 2), TRAIN.rounds)
    ends = replace(TRAIN, rounds=rounds)
    censored = replace(ends, finish_reason=np.where(cut, "abort", TRAIN.finish_reason))
    means = {
        name: expected_remaining(fit_refiner(examples, SMALL, 0), UNSEEN).mean()
        for name, examples in {"ends": ends, "censored": censored, "full": TRAIN}.items()
    }
    assert means["ends"] < 0.85 * means["full"]
    assert means["censored"] > 1.15 * means["ends"]


def test_budget_free_durations_reach_beyond_the_budget() -> None:
    free = SMALL.model_copy(update={"duration": "budget_free"})
    beyond = [
        predict(fit_refiner(TRAIN, settings, 0), UNSEEN).survival()[:, -1].mean()
        for settings in (SMALL, free)
    ]
    assert beyond[1] > 2 * beyond[0]


def test_calibration_uses_predictions_for_unseen_prompts_only() -> None:
    means = out_of_fold_means(TRAIN, SMALL, seed=0)
    folds = group_folds(TRAIN.prompt, SMALL.calibration_folds, 0)
    spoiled = replace(TRAIN, rounds=np.where(folds == 0, 2, TRAIN.rounds))
    again = out_of_fold_means(spoiled, SMALL, seed=0)
    np.testing.assert_array_equal(means[folds == 0], again[folds == 0])
    assert (means[folds == 1] != again[folds == 1]).any()


def test_budget_free_has_no_calibration_map() -> None:
    free = SMALL.model_copy(update={"duration": "budget_free"})
    assert fit_refiner_calibration(TRAIN, free, 0) is None


def test_too_few_prompts_are_refused_with_the_number_needed() -> None:
    few = TRAIN.take(np.arange(2))
    with pytest.raises(
        TrainingError, match=rf"2 distinct training prompts.*at least {MIN_PROMPTS}"
    ):
        check_trainable(few, SMALL)
    same = replace(TRAIN, prompt=np.full(len(TRAIN), "a"))
    with pytest.raises(TrainingError, match="1 distinct training prompts"):
        check_trainable(same, SMALL)
    check_trainable(TRAIN.take(np.arange(MIN_PROMPTS)), SMALL)


def test_durations_that_are_all_censored_are_refused() -> None:
    cut = replace(TRAIN, finish_reason=np.full(len(TRAIN), "budget"))
    with pytest.raises(TrainingError, match="duration=budget_free"):
        check_trainable(cut, SMALL.model_copy(update={"duration": "budget_free"}))
    check_trainable(cut, SMALL)


def test_diverging_training_is_refused_with_the_setting_to_lower() -> None:
    wild = SMALL.model_copy(update={"learning_rate": 1e30})
    with pytest.raises(TrainingError, match=r"Lower predictors\.refiner\.learning_rate"):
        fit_refiner(TRAIN, wild, seed=0)


def test_the_smallest_allowed_data_train() -> None:
    tiny = TRAIN.take(np.arange(MIN_PROMPTS))
    refiner = fit_refiner(tiny, SMALL, 0)
    calibration = fit_refiner_calibration(tiny, SMALL, 0)
    assert np.isfinite(expected_remaining(refiner.calibrated(calibration), UNSEEN, True)).all()


def test_constant_rounds_are_predicted() -> None:
    constant = replace(TRAIN, rounds=np.full(len(TRAIN), 9))
    refiner = fit_refiner(constant, SMALL, 0)
    calibrated = refiner.calibrated(fit_refiner_calibration(constant, SMALL, 0))
    np.testing.assert_allclose(expected_remaining(calibrated, UNSEEN, True), 8, atol=0.5)


def test_groups_stay_together_in_folds() -> None:
    groups = np.array([f"g{i % 7}" for i in range(50)])
    folds = group_folds(groups, 3, seed=0)
    assert set(folds.tolist()) == {0, 1, 2}
    for group in set(groups.tolist()):
        assert len(set(folds[groups == group].tolist())) == 1


def test_normalisation_silences_constant_inputs() -> None:
    normalisation = Normalisation.fit(TRAIN.hidden, TRAIN.prompt_tokens, TRAIN.budget_tokens)
    other_budget = torch.full((len(TRAIN),), 2048)
    z = normalisation.apply(
        torch.from_numpy(TRAIN.hidden), torch.from_numpy(TRAIN.prompt_tokens), other_budget
    )
    assert (z[:, -1] == 0).all()
    torch.testing.assert_close(z[:, :-2].mean(0), torch.zeros(48), atol=1e-5, rtol=0)
    torch.testing.assert_close(z[:, :-2].std(0, correction=0), torch.ones(48))


def test_normalisation_limits_prompt_lengths_far_outside_training() -> None:
    normalisation = Normalisation.fit(TRAIN.hidden, TRAIN.prompt_tokens, TRAIN.budget_tokens)
    z = normalisation.apply(
        torch.from_numpy(TRAIN.hidden[:1]), torch.tensor([10**8]), torch.tensor([256])
    )
    assert z[0, -2] == 3


def test_refiner_takes_arrays_and_tensors_and_checks_shapes(refiner: Refiner) -> None:
    arrays = predict(refiner, UNSEEN).mean()
    tensors = refiner(
        torch.from_numpy(UNSEEN.hidden.astype(np.float16)),
        torch.from_numpy(UNSEEN.prompt_tokens),
        torch.from_numpy(UNSEEN.budget_tokens),
    ).mean()
    torch.testing.assert_close(arrays, tensors, rtol=1e-2, atol=1e-2)
    with pytest.raises(ValueError, match="hidden_mean"):
        refiner(UNSEEN.hidden[:, :3], UNSEEN.prompt_tokens, UNSEEN.budget_tokens)
    with pytest.raises(ValueError, match="prompt_tokens and budget_tokens"):
        refiner(UNSEEN.hidden, UNSEEN.prompt_tokens[:5], UNSEEN.budget_tokens)
