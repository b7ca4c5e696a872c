from __future__ import annotations

import getpass
import json
import random
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from huggingface_hub import ModelCard
from safetensors.numpy import load, save

from dwise_predict.bundle import PredictorBundle
from dwise_predict.bundle.privacy import private_finding, public_command
from dwise_predict.bundle.schema import FILES, config_bytes
from dwise_predict.errors import BundleError, IncompatibleBundleError
from dwise_predict.recipe import PredictorSettings, RefinerSettings
from dwise_predict.training import train_bundle
from tests import corruption
from tests.synthetic import synthetic_examples, write_profile

SETTINGS = PredictorSettings(refiner=RefinerSettings(width=16, epochs=5, members=2))
UNSEEN = synthetic_examples(20, seed=9, hidden=8)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    profile = write_profile(
        folder / "profile", synthetic_examples(80, 1, 8), synthetic_examples(40, 2, 8)
    )
    train_bundle(profile, folder / "bundle", SETTINGS, seed=0, command="dwise train --model x")
    return folder / "bundle"


@pytest.fixture
def bundle(made: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(made, tmp_path / "bundle"))


def rehash(folder: Path, **changes: object) -> None:
    """What an attacker would do: change files or config keys, then make every digest right."""
    path = folder / "config.json"
    path.write_bytes(config_bytes(json.loads(path.read_bytes()) | changes))
    corruption.rehash(folder)


def test_loaded_predictions_equal_those_before_saving(made: Path, tmp_path: Path) -> None:
    first = PredictorBundle.load(made)
    first.save(tmp_path / "again")
    second = PredictorBundle.load(tmp_path / "again")
    row = {"words": 31, "newlines": 2, "prompt_tokens": 57}
    assert first.admission.rounds(**row) == second.admission.rounds(**row)
    means = [
        b.refiner(UNSEEN.hidden, UNSEEN.prompt_tokens, UNSEEN.budget_tokens).mean().numpy()
        for b in (first, second)
    ]
    np.testing.assert_array_equal(*means)
    for name in (*FILES, "config.json"):
        assert (made / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_the_calibration_map_is_restored(made: Path) -> None:
    bundle = PredictorBundle.load(made)
    assert bundle.config.calibration is not None
    remaining = bundle.refiner(UNSEEN.hidden, UNSEEN.prompt_tokens, UNSEEN.budget_tokens)
    assert (remaining.mean() != remaining.mean(calibrated=False)).any()


def test_a_bundle_of_something_else_is_refused(
    made: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fingerprint = PredictorBundle.load(made).config.fingerprint
    other = fingerprint.model_copy(update={"block_size": 4})
    similar = fingerprint.model_copy(update={"dtype": "bfloat16"})
    with caplog.at_level("WARNING"):
        for open_bundle in (PredictorBundle.load, PredictorBundle.from_pretrained):
            with pytest.raises(IncompatibleBundleError, match="blocks have 4 tokens"):
                open_bundle(made, target=other)
            assert open_bundle(made, target=fingerprint).check(other).level == "incompatible"
        assert caplog.text == ""
        PredictorBundle.load(made, target=similar)
    assert "numbers are bfloat16, the bundle was trained with float32" in caplog.text


def test_admission_alone_needs_neither_torch_nor_lightgbm(made: Path) -> None:
    code = (
        "import sys; from dwise_predict import PredictorBundle; "
        f"b = PredictorBundle.load({str(made)!r}); "
        "b.admission.rounds(words=1, newlines=1, prompt_tokens=1); "
        "sys.exit('torch' in sys.modules or 'lightgbm' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_the_package_is_light() -> None:
    code = (
        "import sys, dwise_predict; "
        "sys.exit(any(m in sys.modules for m in ('torch', 'lightgbm', 'numpy', 'pydantic')))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", [*FILES, "config.json"])
def test_missing_files_are_named(bundle: Path, name: str) -> None:
    (bundle / name).unlink()
    with pytest.raises(BundleError, match=re.escape(name)):
        PredictorBundle.load(bundle)


@pytest.mark.parametrize("name", FILES)
def test_flipped_bytes_are_refused_by_the_hash(bundle: Path, name: str) -> None:
    original = (bundle / name).read_bytes()
    rng = random.Random(name)
    for _ in range(20):
        damaged = bytearray(original)
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        (bundle / name).write_bytes(damaged)
        with pytest.raises(BundleError, match="SHA-256"):
            PredictorBundle.load(bundle)


def test_flipped_bytes_of_config_are_refused(bundle: Path) -> None:
    original = (bundle / "config.json").read_bytes()
    rng = random.Random(0)
    for _ in range(200):
        damaged = bytearray(original)
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        (bundle / "config.json").write_bytes(damaged)
        with pytest.raises(BundleError, match=r"config\.json"):
            PredictorBundle.load(bundle)


def test_files_of_another_length_are_refused(bundle: Path) -> None:
    with (bundle / "admission.txt").open("a") as file:
        file.write(" ")
    with pytest.raises(BundleError, match="larger than"):
        PredictorBundle.load(bundle)


def test_rehashed_hostile_trees_are_refused_before_lightgbm(bundle: Path) -> None:
    text = (bundle / "admission.txt").read_text()
    hostile = re.sub(r"left_child=[^\n ]+", "left_child=0", text)
    assert hostile != text
    blocks = re.findall(r"Tree=\d+\n.*?\n\n\n", hostile, flags=re.S)
    sizes = " ".join(str(len(block)) for block in blocks)
    (bundle / "admission.txt").write_text(re.sub(r"tree_sizes=.*", f"tree_sizes={sizes}", hostile))
    rehash(bundle)
    with pytest.raises(BundleError, match=r"admission\.txt is unsafe to load: tree 0"):
        PredictorBundle.load(bundle)


def test_rehashed_random_damage_of_trees_never_crashes(bundle: Path) -> None:
    """Whatever passes the parser must also predict; nothing may hang or crash."""
    original = (bundle / "admission.txt").read_bytes()
    rng = random.Random(1)
    refused = 0
    for _ in range(60):
        damaged = bytearray(original)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.choice(b"0123456789-. \n=e")
        (bundle / "admission.txt").write_bytes(damaged)
        rehash(bundle)
        try:
            loaded = PredictorBundle.load(bundle)
        except BundleError:
            refused += 1
        else:
            with loaded.admission as admission:
                assert admission.rounds(words=10, newlines=1, prompt_tokens=20) >= 1
    assert refused > 10


def test_rehashed_trees_that_predict_no_number_are_refused(bundle: Path) -> None:
    path = bundle / "admission.txt"
    lines = path.read_text().split("\n")
    i = next(i for i, line in enumerate(lines) if line.startswith("leaf_value="))
    value = lines[i].split("=")[1].split(" ")[0]
    # Of the same length, so that tree_sizes stays right.
    lines[i] = lines[i].replace(value, "9" * 5 + "." + "0" * (len(value) - 6), 1)
    path.write_text("\n".join(lines))
    rehash(bundle)
    with pytest.raises(BundleError, match=r"can predict exp\(100"):
        PredictorBundle.load(bundle)


def test_rehashed_tensors_of_another_shape_type_or_name_are_refused(bundle: Path) -> None:
    path = bundle / "refiner.safetensors"
    original = load(path.read_bytes())
    for changes in (
        {"layer0_weight": original["layer0_weight"][:, :-1].copy()},
        {"layer0_bias": original["layer0_bias"].astype(np.float64)},
        {"extra": np.zeros(3, dtype=np.float32)},
    ):
        path.write_bytes(save({**original, **changes}))
        rehash(bundle)
        with pytest.raises(BundleError, match=next(iter(changes))):
            PredictorBundle.load(bundle)


def test_rehashed_numbers_that_are_not_finite_are_refused(bundle: Path) -> None:
    path = bundle / "refiner.safetensors"
    tensors = {name: tensor.copy() for name, tensor in load(path.read_bytes()).items()}
    tensors["layer1_bias"][0, 0, 0] = np.nan
    path.write_bytes(save(tensors))
    rehash(bundle)
    with pytest.raises(BundleError, match=r"layer1_bias.*not finite"):
        PredictorBundle.load(bundle)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        *(("scale", number) for number in (3e38, -1.0, 1e-44)),
        *(("centre", number) for number in (3e38, -3e38)),
        *((name, 3e38) for name in ("layer0_weight", "layer1_weight", "layer1_bias")),
    ],
)
def test_rehashed_numbers_that_overflow_are_refused(bundle: Path, name: str, number: float) -> None:
    path = bundle / "refiner.safetensors"
    tensors = {name: tensor.copy() for name, tensor in load(path.read_bytes()).items()}
    tensors[name].reshape(-1)[0] = number
    path.write_bytes(save(tensors))
    rehash(bundle)
    with pytest.raises(BundleError, match=rf"refiner\.safetensors: .*{name}.*"):
        PredictorBundle.load(bundle)


def test_the_largest_numbers_that_load_give_finite_estimates(bundle: Path) -> None:
    """All at their limits at once, for inputs of every size that float32 holds."""
    path = bundle / "refiner.safetensors"
    tensors = {name: tensor.copy() for name, tensor in load(path.read_bytes()).items()}
    rng = np.random.default_rng(0)
    for name, tensor in tensors.items():
        signs = np.where(rng.random(tensor.shape) < 0.5, -1, 1).astype(np.float32)
        if name == "scale":
            tensor[:] = rng.choice(np.array([0, 1e-6, 1e6], dtype=np.float32), tensor.shape)
        elif name == "centre":
            tensor[:] = 1e6 * signs
        else:
            # Three layers of at most 16 inputs from 1e4: just below 1e32 at the end.
            tensor[:] = signs * 1e8
    path.write_bytes(save(tensors))
    steep = [1, 1 + 2e-6, 3, 4], [1, 1e7 - 2, 1e7 - 1, 1e7]
    rehash(bundle, calibration=dict(zip(("raw", "calibrated"), steep, strict=True)))
    refiner = PredictorBundle.load(bundle).refiner
    sizes = np.array([0, 1e-45, 1, 65504, 1e30, 3.4e38], dtype=np.float32)
    hidden = np.repeat(np.concatenate([sizes, -sizes])[:, None], refiner.hidden_size, axis=1)
    tokens = np.full(len(hidden), 2**40)
    remaining = refiner(hidden, tokens, tokens)
    for estimate in (remaining.mean(), remaining.mean_residuals(), remaining.pmf()):
        assert np.isfinite(estimate.numpy()).all()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00" * 8,
        b"\xff" * 64,
        (40).to_bytes(8, "little") + b"[" * 40,
        (2).to_bytes(8, "little") + b"[]",
        (14).to_bytes(8, "little") + b'{"centre": 12}',
    ],
)
def test_rehashed_files_that_are_no_safetensors_are_refused(bundle: Path, content: bytes) -> None:
    (bundle / "refiner.safetensors").write_bytes(content)
    rehash(bundle)
    with pytest.raises(BundleError, match=r"refiner\.safetensors"):
        PredictorBundle.load(bundle)


@pytest.mark.parametrize(
    ("raw", "calibrated"),
    [
        ([1, 5, 4], [1, 2, 3]),
        ([1, 5], [1, 2, 3]),
        ([2, 5], [1, 2]),
        ([1, 2], [1, 1e308]),
        ([1, 1e308], [1, 2]),
        ([1, 1.0000000000000002], [1, 5]),
    ],
)
def test_rehashed_calibration_that_is_no_map_is_refused(
    bundle: Path, raw: list[float], calibrated: list[float]
) -> None:
    rehash(bundle, calibration={"raw": raw, "calibrated": calibrated})
    with pytest.raises(BundleError, match=r"config\.json: key 'calibration': .*knot"):
        PredictorBundle.load(bundle)


def test_folders_that_are_no_bundle_are_named(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "absent", "/", "", ".", "/etc/passwd"):
        with pytest.raises(BundleError) as refused:
            PredictorBundle.load(place)
        assert str(refused.value) == f"{Path(place)} is no bundle: it has no config.json"
    (tmp_path / "config.json").write_text('{"architectures": ["SDARForCausalLM"]}')
    with pytest.raises(BundleError, match="not the configuration of a bundle") as refused:
        PredictorBundle.load(tmp_path)
    assert "delete" not in str(refused.value)
    (tmp_path / "config.json").write_text("[" * 100_000)
    with pytest.raises(BundleError, match="no JSON"):
        PredictorBundle.load(tmp_path)


def test_only_the_bundle_of_a_run_may_be_deleted_and_made_again(
    bundle: Path, tmp_path: Path
) -> None:
    (bundle / "smoke.json").write_text("{}")
    advice = f"delete the folder {bundle} and run again with --resume"
    with pytest.raises(BundleError, match="get the bundle again") as refused:
        PredictorBundle.load(bundle)
    assert "delete" not in str(refused.value)
    for name in ("recipe.yaml", "workload.jsonl"):
        (tmp_path / name).write_text("")
    with pytest.raises(BundleError, match=re.escape(advice)):
        PredictorBundle.load(bundle)
    copy = shutil.copytree(bundle, tmp_path / "copy")
    with pytest.raises(BundleError, match="get the bundle again"):
        PredictorBundle.load(copy)
    with pytest.raises(BundleError, match=f"{re.escape(str(tmp_path))} is no bundle") as refused:
        PredictorBundle.load(tmp_path)
    assert "delete" not in str(refused.value)
    (bundle / "config.json").unlink()
    with pytest.raises(BundleError, match=rf"has no config\.json; {re.escape(advice)}"):
        PredictorBundle.load(bundle)


def test_names_too_long_for_a_file_are_a_bundle_error(made: Path, tmp_path: Path) -> None:
    name = "x" * 5000
    for refused in (
        lambda: PredictorBundle.from_pretrained(name),
        lambda: PredictorBundle.load(name),
        lambda: PredictorBundle.load(made).save(tmp_path / name),
    ):
        with pytest.raises(BundleError, match="File name too long"):
            refused()


def test_a_changed_configuration_is_noticed(bundle: Path) -> None:
    text = (bundle / "config.json").read_text()
    changed = text.replace('"budget_tokens": 256', '"budget_tokens": 512')
    assert changed != text
    (bundle / "config.json").write_text(changed)
    with pytest.raises(BundleError, match="changed after it was written"):
        PredictorBundle.load(bundle)


def test_saving_replaces_a_bundle_and_nothing_else(made: Path, tmp_path: Path) -> None:
    loaded = PredictorBundle.load(made)
    target = tmp_path / "bundle"
    loaded.save(target)
    (target / "stale.txt").write_text("old")
    loaded.save(target)
    assert sorted(p.name for p in target.iterdir()) == sorted([*FILES, "config.json"])
    assert [p.name for p in tmp_path.iterdir()] == ["bundle"]
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "chapter1.tex").write_text("precious")
    with pytest.raises(BundleError, match="is no bundle"):
        loaded.save(other)
    assert (other / "chapter1.tex").read_text() == "precious"


def test_saving_on_a_link_replaces_what_it_points_to(made: Path, tmp_path: Path) -> None:
    loaded = PredictorBundle.load(made)
    (tmp_path / "links").mkdir()
    (tmp_path / "targets").mkdir()
    link, target = tmp_path / "links" / "current", tmp_path / "targets" / "v1"
    link.symlink_to(target)
    for _ in range(3):
        loaded.save(link)
        assert link.is_symlink() and PredictorBundle.load(link).metrics == loaded.metrics
        assert [path.name for path in target.parent.iterdir()] == ["v1"]
        assert [path.name for path in link.parent.iterdir()] == ["current"]
    link.with_name(".copy.old").symlink_to(target)  # what earlier versions left
    loaded.save(link.with_name("copy"))
    assert sorted(path.name for path in link.parent.iterdir()) == ["copy", "current"]
    assert PredictorBundle.load(target).metrics == loaded.metrics


def test_leftovers_of_a_killed_save_are_cleaned_up(made: Path, tmp_path: Path) -> None:
    leftover = tmp_path / ".bundle.new"
    leftover.mkdir()
    (leftover / "config.json").write_text("half")
    PredictorBundle.load(made).save(tmp_path / "bundle")
    assert [p.name for p in tmp_path.iterdir()] == ["bundle"]


def test_an_unwritable_place_is_a_clear_error(made: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file" / "bundle", Path("/proc/none/bundle"), Path("/proc/none")):
        with pytest.raises(BundleError, match="cannot write the bundle"):
            PredictorBundle.load(made).save(place)
    with pytest.raises(BundleError, match="/ exists and is no bundle"):
        PredictorBundle.load(made).save("/")


def test_no_file_names_this_machine(made: Path) -> None:
    for path in made.iterdir():
        content = path.read_bytes()
        assert str(made.parent).encode() not in content
        assert socket.gethostname().encode() not in content


def test_a_model_given_by_its_local_path_is_refused(tmp_path: Path) -> None:
    profile = write_profile(
        tmp_path / "profile",
        synthetic_examples(80, 1, 8),
        synthetic_examples(40, 2, 8),
        model="/home/joe/models/mini",
    )
    with pytest.raises(BundleError, match="local path '/home/joe/models/mini'"):
        train_bundle(profile, tmp_path / "bundle", SETTINGS, seed=0)
    assert not (tmp_path / "bundle").exists()


@pytest.mark.parametrize(
    ("command", "public"),
    [
        ("dwise train --out=/home/joe/runs/a", "dwise train --out=a"),
        ("/usr/local/bin/dwise train --model tiny", "dwise train --model tiny"),
        ("dwise train --workload ~/prompts/x.jsonl", "dwise train --workload x.jsonl"),
        (r"dwise train 'C:\Users\joe\x.jsonl'", "dwise train x.jsonl"),
        (
            "dwise train --workload '/data/Jane Doe/my x.jsonl'",
            "dwise train --workload 'my x.jsonl'",
        ),
        ("dwise train --set 'workload.path=/Jane Doe/x'", "dwise train --set workload.path=x"),
        ("dwise train --model org/dllm-mini", "dwise train --model org/dllm-mini"),
        ("dwise train --set a.b=1/2 'unclosed", "dwise train --set a.b=1/2 ''\"'\"'unclosed'"),
        ("", ""),
    ],
)
def test_commands_lose_their_paths(command: str, public: str) -> None:
    assert public_command(command) == public


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with telling names."""
    monkeypatch.setattr(socket, "gethostname", lambda: "gpu42.lab.example")
    monkeypatch.setattr(getpass, "getuser", lambda: "train")


@pytest.mark.usefixtures("machine")
def test_commands_lose_host_and_user() -> None:
    command = "dwise train --set workload.path=train-gpu42.jsonl --note gpu42 --by train"
    public = public_command(command)
    assert public == (
        "dwise train --set workload.path=train-gpu42.jsonl --note '<host>' --by '<user>'"
    )


@pytest.mark.usefixtures("machine")
def test_names_of_this_machine_are_found_in_every_text() -> None:
    assert private_finding({"a.json": '{"model": "local:gpu42"}'}) is not None
    assert private_finding({"README.md": "made on gpu42.lab.example"}) is not None
    assert private_finding({"a.json": '{"x": 1}'}, "dwise train --by train") is not None
    # A user called like an ordinary word may well use that word.
    assert private_finding({"a.json": '{"category": "train"}', "README.md": "gpu420"}) is None


def test_the_model_card_says_what_the_metrics_say(made: Path) -> None:
    bundle, card = PredictorBundle.load(made), (made / "README.md").read_text()
    assert f"{bundle.metrics.refined.spearman:.3f}" in card
    assert f"On {bundle.metrics.n_eval} requests" in card
    assert "dwise train --model x" in card


def test_the_front_matter_is_that_of_a_model(made: Path) -> None:
    card = ModelCard.load(made / "README.md")
    metrics = PredictorBundle.load(made).metrics
    assert card.data.library_name == "dwise-predict"
    assert card.data.base_model == "acme/dllm-mini"
    assert card.data.license == "apache-2.0"
    assert card.data.datasets == ["acme/prompts"]
    assert "diffusion-language-model" in card.data.tags
    assert card.data.model_name == "dwise-dllm-mini"
    results = {result.metric_name: result.metric_value for result in card.data.eval_results}
    assert results["Spearman, refined"] == round(metrics.refined.spearman, 4)
    assert results["Mean absolute error in rounds, admission"] == round(metrics.admission.mae, 4)
