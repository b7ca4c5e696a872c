from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dwise_predict.baselines import (
    METHODS,
    Baselines,
    BaselineSettings,
    Method,
    train_baselines,
)
from dwise_predict.baselines.lengths import training_lengths
from dwise_predict.errors import BaselineError, SimulationError
from dwise_predict.profile import read_profile
from dwise_predict.rank import spearman
from dwise_predict.results.records import ESTIMATES
from dwise_predict.scheduling import ResidencyLimits, RoundCost
from dwise_predict.simulation.run import Arrivals, Setup, simulate
from dwise_predict.simulation.sources.profiled import profile_source
from tests.encoders import write_encoder
from tests.integration.baselines.conftest import EVAL, TRAIN, Study
from tests.synthetic import replace_table

FILES = ("config.json", "weights.safetensors")


@pytest.fixture(scope="module")
def folder(
    study: Study, settings: BaselineSettings, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    out = tmp_path_factory.mktemp("trained") / "baselines"
    train_baselines(study.profile, study.requests, out, settings, 3, rounds=study.rounds)
    return out


@pytest.fixture(scope="module")
def baselines(folder: Path) -> Baselines:
    return Baselines.load(folder)


@pytest.mark.parametrize("method", METHODS)
def test_prompts_that_tell_are_ranked(baselines: Baselines, study: Study, method: Method) -> None:
    texts = [r.text for r in study.requests[TRAIN:]]
    output = study.profile.requests["output_tokens"].to_numpy()[TRAIN:]
    found = spearman(baselines.admission(method, texts), output)
    assert found is not None and found > 0.7
    assert found > 0.9 or method in ("s3", "trail"), found


def test_tokens_are_predicted_in_tokens(baselines: Baselines, study: Study) -> None:
    texts = [r.text for r in study.requests[TRAIN:]]
    output = study.profile.requests["output_tokens"].to_numpy()[TRAIN:]
    for method in ("ssjf", "trail"):
        error = np.abs(baselines.admission(method, texts) - output).mean()  # type: ignore[arg-type]
        assert error < 0.5 * np.abs(output - output.mean()).mean(), method
    allocated = baselines.admission("s3", texts)
    width = allocated.max() / round(allocated.max() / 25.6)
    np.testing.assert_allclose(allocated / width, np.rint(allocated / width))


def test_trail_follows_what_is_left(baselines: Baselines, study: Study) -> None:
    rounds = study.rounds.of([r.request_id for r in study.requests[TRAIN:]])
    estimates = baselines["trail"].remaining(rounds)  # type: ignore[union-attr]
    assert [len(e) for e in estimates] == rounds.counts.tolist()
    error = np.abs(np.concatenate(estimates) - rounds.left).mean()
    assert error < 20
    assert (np.concatenate(estimates) <= rounds.room).all()


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_bytes(
    folder: Path, study: Study, settings: BaselineSettings, tmp_path: Path, method: Method
) -> None:
    for seed, same in ((3, True), (4, False)):
        again = tmp_path / str(seed)
        train_baselines(
            study.profile, study.requests, again, settings, seed, [method], study.rounds
        )
        weights = [p / method / FILES[1] for p in (folder, again)]
        assert (weights[0].read_bytes() == weights[1].read_bytes()) == same
        configs = [p / method / FILES[0] for p in (folder, again)]
        assert (configs[0].read_bytes() == configs[1].read_bytes()) == same


def test_what_was_trained_is_kept_and_the_rest_goes_on(
    folder: Path, study: Study, settings: BaselineSettings, tmp_path: Path
) -> None:
    out = tmp_path / "baselines"
    shutil.copytree(folder, out)
    stamp = (out / "ssjf" / FILES[1]).stat().st_mtime_ns
    shutil.rmtree(out / "ltr")
    resumed = train_baselines(study.profile, study.requests, out, settings, 3, rounds=study.rounds)
    assert (out / "ssjf" / FILES[1]).stat().st_mtime_ns == stamp
    assert (out / "ltr" / FILES[1]).read_bytes() == (folder / "ltr" / FILES[1]).read_bytes()
    assert set(resumed.trained) == set(METHODS)


def test_another_training_is_refused(
    folder: Path, study: Study, settings: BaselineSettings
) -> None:
    with pytest.raises(BaselineError, match="another training"):
        train_baselines(study.profile, study.requests, folder, settings, 9, ["ltr"])
    other = settings.model_copy(update={"ltr": settings.ltr.model_copy(update={"group_tokens": 3})})
    with pytest.raises(BaselineError, match="another training"):
        train_baselines(study.profile, study.requests, folder, other, 3, ["ltr"])


def test_trail_takes_s3_s_classifier_only_where_it_is_its_own(
    folder: Path, study: Study, settings: BaselineSettings, tmp_path: Path
) -> None:
    """Alone, beside an S³ of the same training, and beside one of another: the same TRAIL."""
    shutil.copytree(folder / "s3", tmp_path / "beside" / "s3")
    train_baselines(study.profile, study.requests, tmp_path / "other", settings, 8, ["s3"])
    for out in ("alone", "beside", "other"):
        train_baselines(
            study.profile, study.requests, tmp_path / out, settings, 3, ["trail"], study.rounds
        )
        weights = tmp_path / out / "trail" / FILES[1]
        assert weights.read_bytes() == (folder / "trail" / FILES[1]).read_bytes(), out


def test_trail_without_recorded_rounds_is_refused(
    study: Study, settings: BaselineSettings, tmp_path: Path
) -> None:
    with pytest.raises(BaselineError, match="every round"):
        train_baselines(study.profile, study.requests, tmp_path, settings, methods=["trail"])


def test_methods_that_do_not_exist_and_files_in_the_way_are_named(
    study: Study, settings: BaselineSettings, tmp_path: Path
) -> None:
    with pytest.raises(BaselineError, match=r"'ssj'.*did you mean 'ssjf'"):
        train_baselines(study.profile, study.requests, tmp_path, settings, methods=["ssj"])  # type: ignore[list-item]
    (tmp_path / "ltr").write_text("")
    with pytest.raises(BaselineError, match="ltr is a file"):
        train_baselines(study.profile, study.requests, tmp_path, settings, methods=["ltr"])


def test_prompts_must_be_those_profiled(study: Study) -> None:
    with pytest.raises(BaselineError, match="lacks the profiled request 'train-0'"):
        training_lengths(study.profile, study.requests[1:])
    first = study.requests[0]
    turn = first.messages[0].model_copy(update={"content": "something else"})
    changed = first.model_copy(update={"messages": (turn,)})
    with pytest.raises(BaselineError, match="'train-0' has another prompt"):
        training_lengths(study.profile, [changed, *study.requests[1:]])


def test_only_finished_training_requests_are_learned_from(study: Study, tmp_path: Path) -> None:
    shutil.copytree(_folder_of(study, tmp_path), tmp_path / "profile")
    table = study.profile.requests
    reasons = ["abort", "budget", *table["finish_reason"].to_pylist()[2:]]
    place = table.column_names.index("finish_reason")
    table = table.set_column(place, table.schema.field(place), [reasons])
    replace_table(tmp_path / "profile", "requests.parquet", table)
    lengths = training_lengths(read_profile(tmp_path / "profile"), study.requests)
    assert len(lengths) == TRAIN - 1
    assert lengths.request_ids[0] == "train-1"
    assert not any(i.startswith("eval") for i in lengths.request_ids)
    few = table.set_column(place, table.schema.field(place), [["abort"] * (TRAIN + EVAL)])
    replace_table(tmp_path / "profile", "requests.parquet", few)
    with pytest.raises(BaselineError, match="0 training requests"):
        training_lengths(read_profile(tmp_path / "profile"), study.requests)


def _folder_of(study: Study, tmp_path: Path) -> Path:
    """The study's profile, written once more."""
    from dwise_predict.files import write_folder
    from dwise_predict.profile.encoding import hidden_bytes, table_bytes

    profile = study.profile
    contents = {
        "requests.parquet": table_bytes(profile.requests),
        "rounds.parquet": table_bytes(profile.rounds),
        "first_round.safetensors": hidden_bytes(profile.hidden),
        "run.json": profile.run.model_dump_json().encode(),
    }
    write_folder(tmp_path / "copy", contents)
    return tmp_path / "copy"


Tamper = Callable[[Path], None]


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))


def _change(path: Path, key: str, value: object) -> None:
    config = json.loads(path.read_text())
    section = config
    *parents, last = key.split(".")
    for parent in parents:
        section = section[parent]
    if value is None:
        del section[last]
    else:
        section[last] = value
    path.write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: _flip(f / FILES[1]), "SHA-256"),
        (lambda f: (f / FILES[1]).unlink(), "cannot read"),
        (lambda f: (f / FILES[0]).unlink(), "no trained baseline"),
        (lambda f: (f / FILES[0]).write_text("{"), "damaged or of another version"),
        (lambda f: _change(f / FILES[0], "format_version", 2), "another version"),
        (lambda f: _change(f / FILES[0], "surprise", 1), "another version"),
        (lambda f: _change(f / FILES[0], "method", "ltr"), "not those of ltr"),
        (lambda f: _change(f / FILES[0], "settings.width", 17), "do not fit the settings"),
        (lambda f: _change(f / FILES[0], "numbers.mean", None), "lacks the number 'mean'"),
        (lambda f: _change(f / FILES[0], "encoder_sha256", "0" * 64), "is not the one"),
        (lambda f: _change(f / FILES[0], "settings.encoder.model", "/nowhere"), "neither on this"),
    ],
)
def test_damage_is_named(folder: Path, tmp_path: Path, damage: Tamper, message: str) -> None:
    shutil.copytree(folder / "ssjf", tmp_path / "ssjf")
    damage(tmp_path / "ssjf")
    with pytest.raises(BaselineError, match=message):
        Baselines.load(tmp_path, ["ssjf"])


def test_a_folder_without_baselines_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match="no trained baseline"):
        Baselines.load(tmp_path)


def test_another_encoder_of_the_same_shape_is_refused(
    study: Study, settings: BaselineSettings, tmp_path: Path
) -> None:
    home = write_encoder(tmp_path / "encoder")
    own = settings.ltr.encoder.model_copy(update={"model": str(home)})
    changed = settings.model_copy(update={"ltr": settings.ltr.model_copy(update={"encoder": own})})
    out = tmp_path / "out"
    train_baselines(study.profile, study.requests, out, changed, 3, ["ltr"])
    shutil.rmtree(home)
    write_encoder(home, seed=1)
    with pytest.raises(BaselineError, match="is not the one that the baseline was trained with"):
        Baselines.load(out)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("former", ["mixed_phase", "prefill_first"])
def test_simulations_take_them(
    baselines: Baselines, study: Study, method: Method, former: str
) -> None:
    source = profile_source(study.profile)
    setup = Setup(method, former, baselines.policy_options(method))  # type: ignore[arg-type]
    arrivals = Arrivals("burst", np.zeros(len(source)))
    limits, cost = ResidencyLimits(4, 16, multiplier=2), RoundCost(1.0, 1.0, 0.0)
    predictor = baselines.simulated(method, source, study.requests, study.rounds)
    results = simulate(source, arrivals, setup, limits, cost, predictor)
    plain = simulate(source, arrivals, Setup("fcfs", former), limits, cost, predictor)  # type: ignore[arg-type]
    assert results.requests[ESTIMATES[0]].to_pylist() == predictor.admission.tolist()
    assert results.summary.latency_s.mean < plain.summary.latency_s.mean


def test_a_baseline_serves_its_own_policy_only(baselines: Baselines, study: Study) -> None:
    source = profile_source(study.profile)
    predictor = baselines.simulated("ssjf", source, study.requests)
    with pytest.raises(SimulationError, match="the policy of that name"):
        predictor.predict(source.workload(), "rounds")
    with pytest.raises(BaselineError, match="recorded rounds"):
        baselines.simulated("trail", source, study.requests)
