"""The trainer end to end on a small corpus, interrupted and not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file

from dwise_predict.engines.torch_engine.checkpoint import load_checkpoint
from dwise_predict.tiny.train import BLOCK_SIZE, main

SMALL = (
    *("--examples", "800", "--batch-positions", "1024", "--decay-steps", "1"),
    *("--no-compile", "--save-every", "1"),
)


def train(out: Path, steps: int, *flags: str) -> str:
    result = CliRunner().invoke(main, ["--out", str(out), "--steps", str(steps), *SMALL, *flags])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("tiny") / "whole"
    train(out, 2)
    return out


def test_a_continued_run_sees_the_same_data_and_ends_with_the_same_weights(
    whole: Path, tmp_path: Path
) -> None:
    train(tmp_path, 1)
    (tmp_path / "log.jsonl").unlink()
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    assert state["step"] == 1
    assert "continuing at step 1" in train(tmp_path, 2)
    weights = [folder / "checkpoint" / "model.safetensors" for folder in (whole, tmp_path)]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    rows = [json.loads((f / "log.jsonl").read_text().splitlines()[-1]) for f in (whole, tmp_path)]
    for key in ("step", "corpus", "held_out"):
        assert rows[0][key] == rows[1][key]


def test_the_checkpoint_is_served_by_the_engine_and_never_predicts_the_mask(whole: Path) -> None:
    folder = whole / "checkpoint"
    config = json.loads((folder / "config.json").read_text())
    assert config["architectures"] == ["SDARForCausalLM"]
    weights = load_file(folder / "model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.bfloat16}
    assert not weights["lm_head.weight"][config["mask_token_id"]].any()
    checkpoint = load_checkpoint(
        folder, "SDARForCausalLM", BLOCK_SIZE, torch.float32, torch.device("cpu")
    )
    assert checkpoint.block_size == BLOCK_SIZE


def test_training_starts_from_another_checkpoint(whole: Path, tmp_path: Path) -> None:
    train(tmp_path, 1, "--init-from", str(whole / "checkpoint"))
    assert (tmp_path / "tokenizer.json").read_bytes() == (whole / "tokenizer.json").read_bytes()
    rows = [json.loads((f / "log.jsonl").read_text().splitlines()[0]) for f in (whole, tmp_path)]
    assert rows[1]["held_out"] < rows[0]["held_out"]
