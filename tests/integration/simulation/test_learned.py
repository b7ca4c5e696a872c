from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dwise_predict.bundle import PredictorBundle
from dwise_predict.errors import IncompatibleBundleError, SimulationError
from dwise_predict.profile import Profile
from dwise_predict.simulation.learned import bundle_estimates, run_estimates
from dwise_predict.simulation.sources import (
    Trace,
    profile_source,
    synthetic_source,
    trace_source,
)
from dwise_predict.tables import read_table


@pytest.fixture(scope="module")
def bundle(run_folder: Path) -> PredictorBundle:
    return PredictorBundle.load(run_folder / "bundle")


def test_a_profile_is_replayed_with_exactly_its_rounds(profile: Profile) -> None:
    source = profile_source(profile, "all")
    assert source.facts["rounds_per_block"].equals(profile.requests["rounds_per_block"])
    assert source.workload().rounds.tolist() == profile.requests["rounds"].to_pylist()
    assert source.workload().block_size == 16


def test_splits(profile: Profile) -> None:
    assert [len(profile_source(profile, split)) for split in ("eval", "train", "all")] == [
        60, 120, 180,
    ]  # fmt: skip
    assert set(profile_source(profile).facts["split"].to_pylist()) == {"eval"}


def test_a_split_nobody_is_in(profile: Profile) -> None:
    nobody = pa.nulls(profile.requests.num_rows, pa.string())
    place = profile.requests.column_names.index("split")
    requests = profile.requests.set_column(place, "split", nobody)
    bare = Profile(profile.run, requests, profile.rounds, profile.hidden)
    with pytest.raises(SimulationError, match=r"no request of the eval split; .* --split all"):
        profile_source(bare)


def test_bundle_and_run_folder_tell_the_same(
    bundle: PredictorBundle, run_folder: Path, profile: Profile
) -> None:
    source = profile_source(profile)
    ours, theirs = bundle_estimates(bundle, source, False), run_estimates(run_folder, source)
    assert ours.admission == pytest.approx(theirs.admission)
    assert ours.refined == pytest.approx(theirs.refined, abs=1e-5)
    assert ours.curves is None
    told = ours.predict(source.workload(), "rounds")
    assert told.admission is ours.admission and told.refined is ours.refined


def test_curves_start_at_the_refined_estimate(bundle: PredictorBundle, profile: Profile) -> None:
    estimates = bundle_estimates(bundle, profile_source(profile), True)
    assert estimates.curves is not None
    assert [curve[0] for curve in estimates.curves] == pytest.approx(estimates.refined, rel=1e-5)
    assert {len(curve) for curve in estimates.curves} == {bundle.refiner.horizon + 1}


def test_drawn_requests_keep_the_estimates_of_those_they_were_drawn_from(
    bundle: PredictorBundle, profile: Profile
) -> None:
    source = profile_source(profile)
    trace = Trace("some.csv", np.arange(200.0), np.full(200, 3000))
    drawn = trace_source(trace, source, seed=0)
    assert drawn.rows is not None and source.rows is not None
    place = {row: i for i, row in enumerate(source.rows.tolist())}
    chosen = [place[row] for row in drawn.rows.tolist()]
    estimates, own = (bundle_estimates(bundle, s, False) for s in (drawn, source))
    assert estimates.admission == pytest.approx(own.admission[chosen])
    assert estimates.refined == pytest.approx(own.refined[chosen], rel=1e-5)
    assert drawn.workload().rounds.tolist() == source.workload().rounds[chosen].tolist()


def test_output_tokens_are_not_what_they_predict(run_folder: Path, profile: Profile) -> None:
    source = profile_source(profile)
    estimates = run_estimates(run_folder, source)
    with pytest.raises(SimulationError, match="this policy ranks by output tokens"):
        estimates.predict(source.workload(), "output_tokens")
    assert not estimates.predict(source.workload(), "nothing").admission.any()


def test_synthetic_requests_have_no_prompts(bundle: PredictorBundle, run_folder: Path) -> None:
    source = synthetic_source(5, 0)
    with pytest.raises(SimulationError, match="which synthetic requests lack"):
        bundle_estimates(bundle, source, False)
    with pytest.raises(SimulationError, match="are in no run folder"):
        run_estimates(run_folder, source)


def test_a_bundle_of_another_model_is_refused(profile: Profile) -> None:
    with pytest.raises(IncompatibleBundleError):
        bundle_estimates(PredictorBundle.from_pretrained("tiny"), profile_source(profile), False)


@pytest.mark.parametrize("damage", ["missing", "cut", "other", "columns", "nan"])
def test_predictions_that_cannot_be_used(
    tmp_path: Path, run_folder: Path, profile: Profile, damage: str
) -> None:
    path = tmp_path / "predictions.parquet"
    content = (run_folder / "predictions.parquet").read_bytes()
    table = read_table(run_folder / "predictions.parquet")
    if damage == "cut":
        path.write_bytes(content[:-50])
    elif damage == "other":
        pq.write_table(table.slice(0, 125), path)
    elif damage == "columns":
        pq.write_table(table.drop_columns(["refined"]), path)
    elif damage == "nan":
        place = table.column_names.index("refined")
        nan = pa.array(np.full(table.num_rows, np.nan))
        pq.write_table(table.set_column(place, "refined", nan), path)
    message = {
        "missing": "is missing: .* is no finished run folder",
        "cut": "is damaged",
        "other": "no estimate for 55 of 60 requests, 'eval-5' among them",
        "columns": "is damaged",
        "nan": "is damaged: an estimate is no number",
    }[damage]
    with pytest.raises(SimulationError, match=message):
        run_estimates(tmp_path, profile_source(profile))
