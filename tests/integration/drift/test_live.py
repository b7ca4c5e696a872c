"""From a recording of live traffic to an evaluated and a refreshed bundle."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np

from dwise_predict.assembly import assemble_live_profile
from dwise_predict.bundle import PredictorBundle
from dwise_predict.evaluate import evaluate_bundle
from dwise_predict.profile import read_profile
from dwise_predict.recording import HEADER, Recording
from dwise_predict.refresh import Origin, refresh_bundle
from tests.integration.drift.conftest import longer
from tests.synthetic import Examples, fingerprint, synthetic_examples


def record(folder: Path, examples: Examples) -> Path:
    """What a server that samples live traffic writes, as tests/e2e/sglang has it written."""
    folder.mkdir()
    header = Recording(fingerprint=fingerprint(examples.hidden.shape[1]), slots=8, policy="dwise")
    (folder / HEADER).write_text(header.model_dump_json())
    lines = [
        {
            "shard": 1, "index": 0, "start_s": 0.0, "wall_ms": 1.0, "slots": 8,
            "prefill_slots": 2, "kv_tokens": 0, "residents": 8, "waiting": 0,
        }
    ]  # fmt: skip
    for i in range(len(examples)):
        rounds = int(examples.rounds[i])
        lines.append(
            {
                "request_id": f"live-{i}",
                "words": float(examples.words[i]),
                "newlines": float(examples.newlines[i]),
                "prompt_tokens": int(examples.prompt_tokens[i]),
                "prompt_sha256": str(examples.prompt[i]),
                "prompt_blocks": int(examples.prompt_tokens[i]) // 16,
                "budget_tokens": 256,
                "output_tokens": min(rounds, 256),
                "output_blocks": 1,
                "rounds": rounds,
                "rounds_per_block": [rounds],
                "first_block_masked": 16,
                "finish_reason": str(examples.finish_reason[i]),
                "arrival_s": 0.0,
                "admitted_s": 0.0,
                "first_round_s": 0.1,
                "first_block_s": 0.2,
                "finished_s": 0.3,
                "shard": 1,
                "hidden": base64.b64encode(examples.hidden[i].astype(np.float16)).decode(),
            }
        )
    (folder / "00001.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_live_traffic_is_evaluated_and_refreshes(base: Path, tmp_path: Path) -> None:
    recording = record(tmp_path / "recording", longer(synthetic_examples(600, 3, 24)))
    assemble_live_profile([recording], tmp_path / "live")
    profile, bundle = read_profile(tmp_path / "live"), PredictorBundle.load(base / "bundle")
    assert set(profile.requests["category"].to_pylist()) == {"live"}

    found = evaluate_bundle(bundle, profile, "live")
    assert found.drift.requests == 600
    assert found.drift.verdict.advice in ("recalibrate", "refresh")
    names = {figure.name for figure in found.drift.figures}
    assert "refined rank overall" in names and "refined rank inside" not in names
    # A workload identifies prompts by their text and live traffic by their tokens.
    assert len(found.unseen.unknown_profiles) == 1

    for only in (True, False):
        _, refresh = refresh_bundle(
            tmp_path / "live",
            tmp_path / f"new-{only}",
            Origin(bundle, calibration_only=only),
            bundle.config.settings,
            seed=0,
        )
        gained = {change.figure: change.gain for change in refresh.changes}
        assert gained["refined ratio"] > 0.2
        assert gained["refined error"] > 0
        new = PredictorBundle.load(tmp_path / f"new-{only}")
        assert new.verify() == []
        trained = profile.requests["split"].to_pylist().count("train")
        assert evaluate_bundle(new, profile, "live").unseen.left_out == trained
