"""What drift does to a bundle of the embedded model, and what refreshing it brings back.

    python benchmarks/measure_drift.py --seeds 5 --out runs/drift

For every seed: one workload of 3,072 requests is served; half of its prompts are what a bundle is
trained and evaluated on, the other half is the traffic that comes later, of which two thirds are
there to refresh and one third to evaluate. What differs between the halves is the situation. The
later half is served once more with a budget of 16 tokens a request. Everything but times repeats
exactly; what is there already is used, figures too. Prints Markdown.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dwise_predict.bundle import PredictorBundle
from dwise_predict.evaluate import evaluate_bundle, judge_bundle
from dwise_predict.evaluation.drift import category_weights
from dwise_predict.evaluation.judged import FIGURES, Judged, judge
from dwise_predict.evaluation.predictors import Predictors, fit_predictors
from dwise_predict.files import write_folder, write_text
from dwise_predict.pipeline import run_profiling
from dwise_predict.predictors.examples import Examples, group_folds
from dwise_predict.predictors.fitting import fit_refiner_calibration
from dwise_predict.profile import Counts, Profile, WorkloadId, read_profile
from dwise_predict.profile.encoding import digest, hidden_bytes, json_bytes, table_bytes
from dwise_predict.profile.records import HIDDEN_FILE, REQUESTS_FILE, ROUNDS_FILE, RUN_FILE
from dwise_predict.profiling import profile_workload
from dwise_predict.recipe import PredictorSettings, Recipe, load_recipe
from dwise_predict.refresh import Origin, refresh_bundle
from dwise_predict.training import sides, train_bundle
from dwise_predict.workload.jsonl import read_jsonl

SIZES = ("workload.train=2048", "workload.eval=1024")
SHORT_BUDGET = 16
OPEN_ENDED = ("chat", "instruction", "code")
MATHS = ("math", "multilingual_math", "code")
SETTINGS = PredictorSettings()
SHOWN = ("refined rank overall", "refined rank inside", "refined ratio", "refined error")
SHOWN_FIRST = ("admission rank overall", "admission ratio")


@dataclass(frozen=True)
class Situation:
    """What a bundle was trained on and what comes later."""

    name: str
    before: tuple[str, ...] | None = None
    """Categories, None: all."""
    later: tuple[str, ...] | None = None
    short: bool = False
    """The later requests have a budget of 16 tokens."""
    train: int | None = None
    """Later training requests, None: all."""


def situations(categories: tuple[str, ...]) -> list[Situation]:
    """Everything that is measured."""
    rest = tuple(name for name in categories if name not in MATHS)
    return [
        Situation("the same mix"),
        Situation("only chat, instruction and code later", later=OPEN_ENDED),
        Situation("math and code are new", before=rest),
        Situation("math and code are new, 200 requests to train on", before=rest, train=200),
        Situation("a budget of 16 tokens later", short=True),
    ]


def main() -> None:
    """Make what is missing, then print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("runs/drift"))
    arguments = parser.parse_args()
    found: dict[str, list[Mapping[str, object]]] = {}
    for seed in range(arguments.seeds):
        whole, short = served(arguments.out, seed)
        for situation in situations(tuple(np.unique(_column(whole, "category")))):
            row = measured(arguments.out / f"seed-{seed}", situation, whole, short, seed)
            found.setdefault(situation.name, []).append(row)
    for name, rows in found.items():
        print_situation(name, rows)


def served(out: Path, seed: int) -> tuple[Profile, Profile]:
    """The workload of a seed, and the same with short budgets, served where they are missing."""
    recipe = load_recipe("tiny", [*SIZES, f"seed={seed}"])
    folder = run_profiling(recipe, out / f"seed-{seed}", resume=True)
    place = out / f"seed-{seed}-short"
    if not (place / RUN_FILE).is_file():
        _serve_short(recipe, folder.workload, place)
    return read_profile(folder.profile), read_profile(place)


def _serve_short(recipe: Recipe, workload: Path, place: Path) -> None:
    requests = [
        request.model_copy(update={"max_new_tokens": SHORT_BUDGET})
        for request in read_jsonl(workload)
    ]
    profile_workload(requests, recipe, place)


def measured(
    out: Path, situation: Situation, whole: Profile, short: Profile, seed: int
) -> dict[str, object]:
    """Figures of the bundle, calibrated, refreshed and trained anew, on the later evaluation."""
    place = out / "parts" / situation.name.replace(" ", "-").replace(",", "")
    known = place / "figures.json"
    if known.is_file():
        return json.loads(known.read_text())  # type: ignore[no-any-return]
    halves = group_folds(np.array(_column(whole, "prompt_sha256"), np.str_), 2, seed)
    before = _part(whole, halves == 0, situation.before, place / "before", None, seed)
    later = _part(
        short if situation.short else whole,
        halves == 1,
        situation.later,
        place / "later",
        situation.train,
        seed,
    )
    bundle = _trained(before, place.parent / f"bundle-{len(situation.before or ())}", seed)
    profile = read_profile(later)
    evaluation = evaluate_bundle(bundle, profile, str(later))
    train, unseen = sides(profile, SETTINGS)
    judged = {"as it was": judge_bundle(bundle, unseen)}
    seconds = {}
    for name, only in (("calibrated", True), ("refreshed", False)):
        target = place / name
        _, record = refresh_bundle(later, target, Origin(bundle, only), SETTINGS, seed)
        judged[name] = judge_bundle(PredictorBundle.load(target), unseen)
        seconds[name] = record.seconds
    started = time.monotonic()
    judged["trained anew"] = judge(_anew(train, seed), unseen, SETTINGS.refiner.duration)
    seconds["trained anew"] = time.monotonic() - started
    _, earlier = sides(read_profile(before), SETTINGS)
    kept = {
        "as it was": judge_bundle(bundle, earlier),
        "refreshed": judge_bundle(PredictorBundle.load(place / "refreshed"), earlier),
    }
    row: dict[str, object] = {
        "advice": evaluation.drift.verdict.advice,
        "n": [len(train), len(unseen)],
        "figures": {name: _figures(each) for name, each in judged.items()},
        "earlier": {name: _figures(each) for name, each in kept.items()},
        "seconds": seconds,
    }
    write_text(known, json.dumps(row, indent=1) + "\n")
    return row


def _trained(profile: Path, place: Path, seed: int) -> PredictorBundle:
    if not (place / "config.json").is_file():
        train_bundle(profile, place, SETTINGS, seed)
    return PredictorBundle.load(place)


def _anew(train: Examples, seed: int) -> Predictors:
    predictors = fit_predictors(train, SETTINGS, seed)
    calibration = fit_refiner_calibration(train, SETTINGS.refiner, seed)
    return Predictors(predictors.admission, predictors.refiner.calibrated(calibration))


def _figures(judged: Judged) -> dict[str, float]:
    rows = np.arange(len(judged.examples))
    weights = category_weights(judged.examples.category[judged.examples.finished])
    return dict(zip(FIGURES, judged.figures(rows, weights).tolist(), strict=True))


def _part(
    profile: Profile,
    half: NDArray[np.bool_],
    categories: tuple[str, ...] | None,
    folder: Path,
    train: int | None,
    seed: int,
) -> Path:
    """A profile folder of some requests of a profile."""
    if (folder / RUN_FILE).is_file():
        return folder
    kept = half if categories is None else half & np.isin(_column(profile, "category"), categories)
    rows = np.flatnonzero(kept)
    if train is not None:
        split = np.array(_column(profile, "split"))[rows]
        chosen = np.random.default_rng(seed).permutation(rows[split == "train"])[:train]
        rows = np.sort(np.concatenate([chosen, rows[split == "eval"]]))
    table = profile.requests.take(pa.array(rows)).combine_chunks()
    contents = {
        REQUESTS_FILE: table_bytes(table),
        ROUNDS_FILE: table_bytes(profile.rounds),
        HIDDEN_FILE: hidden_bytes(profile.hidden[rows]),
    }
    identity = hashlib.sha256("\n".join(table["request_id"].to_pylist()).encode()).hexdigest()
    run = profile.run.model_copy(
        update={
            "workload": WorkloadId(name="part", sha256=identity, requests=len(rows)),
            "counts": Counts(requests=len(rows), rounds=profile.rounds.num_rows),
            "files": {name: digest(content) for name, content in contents.items()},
        }
    )
    folder.parent.mkdir(parents=True, exist_ok=True)
    write_folder(folder, {**contents, RUN_FILE: json_bytes(run)})
    return folder


def _column(profile: Profile, name: str) -> list[str]:
    values: list[str] = profile.requests[name].to_pylist()
    return values


def print_situation(name: str, rows: list[Mapping[str, object]]) -> None:
    """One table: means over seeds, with the lowest and highest."""
    advice = [str(row["advice"]) for row in rows]
    counts = ", ".join(f"{word} {advice.count(word)}" for word in sorted(set(advice)))
    train, evaluated = np.mean([row["n"] for row in rows], axis=0)
    print(f"\n**{name}** ({train:.0f} training, {evaluated:.0f} evaluation requests; ", end="")
    print(f"`dwise evaluate` says: {counts})\n")
    shown = (*SHOWN, *SHOWN_FIRST)
    print(f"| bundle | {' | '.join(shown)} | seconds |")
    print(f"| --- | {' | '.join('---:' for _ in shown)} | ---: |")
    for which in ("as it was", "calibrated", "refreshed", "trained anew"):
        cells = [_cell([row["figures"][which][figure] for row in rows]) for figure in shown]
        times = [row["seconds"].get(which, np.nan) for row in rows]
        print(f"| {which} | {' | '.join(cells)} | {_time(times)} |")
    earlier = {
        which: _cell([row["earlier"][which]["refined rank overall"] for row in rows])
        for which in ("as it was", "refreshed")
    }
    print(
        f"\nOn the earlier evaluation requests: refined rank overall {earlier['as it was']} as it "
        f"was, {earlier['refreshed']} refreshed."
    )


def _cell(values: list[float]) -> str:
    return f"{np.mean(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def _time(values: list[float]) -> str:
    return "–" if np.isnan(values).any() else f"{np.median(values):.1f}"


if __name__ == "__main__":
    main()
