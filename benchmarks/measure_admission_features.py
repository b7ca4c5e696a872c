"""What the admission features ``extended`` are worth on the embedded model, over several seeds.

    python benchmarks/measure_admission_features.py --seeds 10 --out runs/admission

For every seed: a workload of its own, one profile, predictors with the features ``sizes`` and
``extended`` trained from that profile, and replays of its evaluation requests under the paper's
preset, the options beyond it and the oracle. Everything but the profile's wall times repeats
exactly; rounds take what a fixed cost model says, so that the seconds do too. Runs that are there
already are used. Prints Markdown: quality of the estimates, then what each option closes of the
distance to the oracle, with 95% bootstrap intervals over the seeds.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dwise_predict.bundle import Metrics, PredictorBundle
from dwise_predict.evaluation.predictors import fit_finished_admission
from dwise_predict.pipeline import run_training, run_training_from_profile
from dwise_predict.profile import read_profile
from dwise_predict.recipe import (
    AdmissionFeatures,
    AdmissionSettings,
    PredictorSettings,
    load_recipe,
    predictor_settings,
)
from dwise_predict.run_folder import RunFolder
from dwise_predict.scheduling import ResidencyLimits, RoundCost
from dwise_predict.simulation.arrivals import Pattern, arrival_times
from dwise_predict.simulation.beyond import (
    BETTER_ADMISSION,
    LEVERS,
    Levers,
    Outcome,
    Situation,
    gains,
    serve,
)
from dwise_predict.simulation.learned import LearnedRounds, bundle_estimates
from dwise_predict.simulation.paper.situations import probe_ratios
from dwise_predict.simulation.predictions import Predictions
from dwise_predict.simulation.sources import profile_source
from dwise_predict.training import examples_from_profile

SLOTS, BLOCK = 32, 16
COST = RoundCost(base_ms=1.622, slot_ms=0.7836, kv_ms=0.001323)
"""Of the embedded model on two quiet cores, docs/simulator.md."""
RATE = 60.0
"""Arrivals a second of the second half with ``burst+poisson``; an engine finishes about 60."""
ARRIVALS: tuple[Pattern, ...] = ("burst", "burst+poisson")
FEATURES: tuple[AdmissionFeatures, ...] = ("sizes", "extended")
UNSEEN = "{}, category not trained on"
"""Name of estimates by predictors that were trained without the category of the request."""
LEVERS_HERE = {
    # Bundles give mean residuals, not Gittins indices.
    **{name: levers for name, levers in LEVERS.items() if levers.curve != "gittins"},
    **{UNSEEN.format(name): Levers(predictor=UNSEEN.format(name)) for name in FEATURES},
}


def main() -> None:
    """Train what is missing, then print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("runs/admission"))
    arguments = parser.parse_args()
    runs = [
        {name: trained(arguments.out, seed, name) for name in FEATURES}
        for seed in range(arguments.seeds)
    ]
    print_quality(runs)
    told = [{name: estimates(run[name]) for name in FEATURES} for run in runs]
    for pattern in ARRIVALS:
        situations = [
            # Errors at admission are known from other requests than those that are served.
            situation(
                runs[seed]["sizes"], told[seed], told[seed - 1], runs[seed - 1], pattern, seed
            )
            for seed in range(len(runs))
        ]
        print_gains(pattern, situations)


def trained(out: Path, seed: int, features: AdmissionFeatures) -> RunFolder:
    """The run folder of a seed with these features, made where it is missing."""
    folder = RunFolder(out / f"{seed}-{features}")
    if folder.report.is_file():
        return folder
    recipe = load_recipe("tiny").model_copy(update={"seed": seed})
    if features == "sizes":
        return run_training(recipe, folder.path, resume=True).folder
    settings = predictor_settings(recipe.predictors, [f"predictors.admission.features={features}"])
    profile = RunFolder(out / f"{seed}-sizes").profile
    return run_training_from_profile(profile, folder.path, settings, seed).folder


def estimates(run: RunFolder) -> LearnedRounds:
    """What the run's bundle says of its evaluation requests."""
    bundle = PredictorBundle.load(run.bundle)
    return bundle_estimates(bundle, profile_source(read_profile(run.profile)), curves=True)


def estimates_of_unseen(run: RunFolder, features: AdmissionFeatures) -> NDArray[np.float64]:
    """Admission estimates by predictors trained without the category of the request, ``[n]``."""
    profile = read_profile(run.profile)
    examples = examples_from_profile(profile)
    training = np.array(profile.requests["split"].to_pylist()) == "train"
    settings = PredictorSettings(admission=AdmissionSettings(features=features))
    seed = PredictorBundle.load(run.bundle).config.seed
    rounds = np.empty(len(examples))
    for category in np.unique(examples.category):
        inside = examples.category == category
        rest = fit_finished_admission(examples.take(training & ~inside), settings, seed)
        asked = examples.take(inside)
        rounds[inside] = rest.rounds_batch(
            asked.words, asked.newlines, asked.prompt_tokens, asked.token_bins.tolist()
        )
    served: NDArray[np.float64] = rounds[~training]
    return served


def situation(
    run: RunFolder,
    told: dict[AdmissionFeatures, LearnedRounds],
    told_others: dict[AdmissionFeatures, LearnedRounds],
    others: dict[AdmissionFeatures, RunFolder],
    pattern: Pattern,
    seed: int,
) -> Situation:
    """The evaluation requests of a run; ``others`` are those of another seed."""
    workload = profile_source(read_profile(run.profile)).workload()
    other_rounds = profile_source(read_profile(others["sizes"].profile)).workload().rounds
    names: dict[str, AdmissionFeatures] = {"paper": "sizes", BETTER_ADMISSION: "extended"}
    sizes = told["sizes"]
    assert sizes.curves is not None
    return Situation(
        workload=workload,
        arrivals=arrival_times(pattern, len(workload), RATE, seed),
        limits=ResidencyLimits(SLOTS, BLOCK),
        cost=COST,
        predictors={
            name: Predictions(told[features].admission, sizes.refined)
            for name, features in names.items()
        }
        | {
            UNSEEN.format(features): Predictions(estimates_of_unseen(run, features), sizes.refined)
            for features in FEATURES
        },
        curves={"mean": sizes.curves},
        ratios={
            name: probe_ratios(other_rounds.astype(np.float64), told_others[features].admission)
            for name, features in names.items()
        },
    )


def print_quality(runs: Sequence[dict[AdmissionFeatures, RunFolder]]) -> None:
    """Rank correlation of admission estimates with true rounds, where undefined 0."""
    print(f"{len(runs)} seeds, mean (lowest to highest):\n")
    print(
        "| features | all requests | within a category | category not trained on | median ratio |"
    )
    print("| --- | --- | --- | --- | --- |")
    for name in FEATURES:
        metrics = [PredictorBundle.load(run[name].bundle).metrics for run in runs]
        columns = (
            [m.admission.spearman or 0.0 for m in metrics],
            [m.admission.spearman_within or 0.0 for m in metrics],
            [unseen(m) for m in metrics],
            [m.admission.median_ratio for m in metrics],
        )
        cells = [f"{np.mean(c):.3f} ({min(c):.3f} to {max(c):.3f})" for c in columns]
        print(f"| {name} | {' | '.join(cells)} |")
    refined = [PredictorBundle.load(run["sizes"].bundle).metrics.refined for run in runs]
    ranks = np.mean([rank.spearman or 0.0 for rank in refined])
    within = np.mean([rank.spearman_within or 0.0 for rank in refined])
    print(f"\nRefined estimates: {ranks:.3f}, within a category {within:.3f}.")


def unseen(metrics: Metrics) -> float:
    """Correlation inside single categories that training did not hold, constants being 0."""
    single = [row for row in metrics.held_out.values() if len(row.categories) == 1]
    return float(np.mean([row.admission.held_out or 0.0 for row in single]))


def print_gains(pattern: str, situations: Sequence[Situation]) -> None:
    """What each option closes of the distance in mean latency between preset and oracle."""
    outcomes: dict[str, list[Outcome]] = {
        name: [serve(each, levers) for each in situations] for name, levers in LEVERS_HERE.items()
    }
    print(f"\n{pattern}:\n")
    print("| options | mean (s) | closed | 95% interval | p99 | worst category's p99 |")
    print("| --- | ---: | ---: | --- | ---: | ---: |")
    for gain in gains(outcomes):
        print(
            f"| {gain.name} | {gain.mean_s:.3f} | {gain.closed:.0%} "
            f"| {gain.closed_low:.0%} to {gain.closed_high:.0%} "
            f"| {gain.p99_ratio:.2f} | {gain.worst_p99_ratio:.2f} |"
        )


if __name__ == "__main__":
    main()
