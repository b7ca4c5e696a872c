"""The engine on small random models, against a decoder that shares none of its code."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from dwise_predict.engines.protocol import EngineRequest, ServeResult
from dwise_predict.engines.torch_engine.engine import TorchEngine
from dwise_predict.engines.torch_engine.forward import forward_blocks
from dwise_predict.engines.torch_engine.kv_cache import BlockKVCache
from dwise_predict.errors import EngineError
from dwise_predict.recipe import DecodingSettings, EngineSettings, ModelSettings
from dwise_predict.scheduling import Event, Plan, fcfs_scheduler
from tests.checkpoints import write_checkpoint
from tests.engines import ALGORITHMS, ShufflingScheduler, load_engine
from tests.reference import Decoded, Reference

MASK = 256


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Resolves one to four tokens a round and ends by itself in about one request of three."""
    folder = tmp_path_factory.mktemp("model") / "m"
    return write_checkpoint(folder, sharpness=2.0, eos_token_id=list(range(10, 22)))


@pytest.fixture(scope="module")
def requests() -> list[EngineRequest]:
    """Prompts shorter than a block, of whole blocks and long ones; some hold mask tokens."""
    rng = random.Random(1)
    lengths = [1, 2, 4, 8, 100, *(rng.randrange(1, 60) for _ in range(45))]
    return [
        EngineRequest(
            f"r{i}", tuple(rng.randrange(0, MASK + 1) for _ in range(length)), 24 - 3 * (i % 5)
        )
        for i, length in enumerate(lengths)
    ]


@pytest.fixture(scope="module")
def expected(checkpoint: Path, requests: list[EngineRequest]) -> dict[str, list[Decoded]]:
    return {
        name: [
            Reference(checkpoint, name, parameters).decode(list(r.prompt_ids), r.budget_tokens)
            for r in requests
        ]
        for name, parameters in ALGORITHMS.items()
    }


def assert_same(result: ServeResult, expected: list[Decoded]) -> None:
    for served, decoded in zip(result.requests, expected, strict=True):
        assert list(served.output_ids) == decoded.output
        assert list(served.rounds_per_block) == decoded.rounds
        assert served.finish_reason == decoded.finish
        assert served.hidden_mean.dtype == np.float16
        np.testing.assert_allclose(served.hidden_mean, decoded.first_hidden.numpy(), atol=2e-3)


def test_the_workload_is_varied(expected: dict[str, list[Decoded]]) -> None:
    """Otherwise the comparisons below would show little."""
    for decoded in expected.values():
        assert {d.finish for d in decoded} == {"eos", "budget"}
        assert len({rounds for d in decoded for rounds in d.rounds}) >= 4


@pytest.mark.parametrize("slots", [1, 5, 32])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_tokens_and_rounds_equal_the_reference(
    checkpoint: Path,
    requests: list[EngineRequest],
    expected: dict[str, list[Decoded]],
    algorithm: str,
    slots: int,
) -> None:
    engine = load_engine(checkpoint, algorithm, slots)
    result = engine.serve(requests, fcfs_scheduler(slots))
    assert_same(result, expected[algorithm])
    for record in result.rounds:
        assert record.prefill_slots in (0, record.slots)
        assert record.slots <= record.residents <= slots
    assert sum(r.prefill_slots for r in result.rounds) == sum(
        len(r.prompt_ids) // 4 for r in requests
    )
    assert sum(r.slots - r.prefill_slots for r in result.rounds) == sum(
        sum(served.rounds_per_block) for served in result.requests
    )


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_mixing_phases_and_preempting_changes_no_token(
    checkpoint: Path,
    requests: list[EngineRequest],
    expected: dict[str, list[Decoded]],
    algorithm: str,
) -> None:
    engine = load_engine(checkpoint, algorithm, slots=6)
    scheduler = ShufflingScheduler(slots=6, max_residents=20, seed=3)
    result = engine.serve(requests, scheduler, kv_tokens=20 * 124)
    assert_same(result, expected[algorithm])
    assert any(0 < r.prefill_slots < r.slots for r in result.rounds)
    assert any(r.residents > r.slots for r in result.rounds)


def test_rounds_follow_the_hand_worked_schedule(checkpoint: Path) -> None:
    """Two slots: a has 2 prompt blocks, b a short prompt, c waits; each resolves one block."""
    engine = load_engine(checkpoint, slots=2)
    requests = [
        EngineRequest("a", (1, 2, 3, 4, 5, 6, 7, 8), 1),
        EngineRequest("b", (1, 2, 3), 1),
        EngineRequest("c", (1, 2, 3, 4, 5), 1),
    ]
    result = engine.serve(requests, fcfs_scheduler(2))
    a, b, c = (served.rounds_per_block for served in result.requests)
    assert len(a) == len(b) == len(c) == 1
    assert b == (2,)  # one mask, one committing forward
    assert a[0] > 2
    phases = [(r.prefill_slots, r.slots, r.residents, r.waiting) for r in result.rounds]
    # b leaves after two shared rounds; c's prompt block then interrupts a.
    assert phases[:5] == [(1, 1, 2, 1), (1, 1, 2, 1), (0, 2, 2, 1), (0, 2, 2, 1), (1, 1, 2, 0)]
    assert [r.kv_tokens for r in result.rounds[:5]] == [0, 4, 8, 8, 0]
    assert len(result.rounds) == 5 + max(a[0] - 2, c[0])
    times = result.requests[0]
    assert 0 == times.arrival_s <= times.admitted_s < times.first_round_s
    assert times.first_block_s is not None
    assert times.first_round_s < times.first_block_s == times.finished_s


def test_first_block_masked_counts_the_masks_of_the_partial_block(checkpoint: Path) -> None:
    engine = load_engine(checkpoint)
    lengths = [1, 3, 4, 6]
    requests = [EngineRequest(str(n), tuple(range(n)), 2) for n in lengths]
    result = engine.serve(requests, fcfs_scheduler(8))
    assert [served.first_block_masked for served in result.requests] == [3, 1, 4, 2]


def test_a_round_equals_a_forward_over_the_whole_sequence(checkpoint: Path) -> None:
    """The cached, grouped forward pass against the training network's own."""
    model = load_engine(checkpoint).checkpoint.model
    cache = BlockKVCache(model.config, 40, 4, torch.float32, torch.device("cpu"))
    torch.manual_seed(0)
    lengths = [1, 2, 2, 9]
    sequences = [torch.randint(0, 256, (length * 4,)) for length in lengths]
    pages = [cache.allocate(length, "x") for length in lengths]
    with torch.inference_mode():
        hidden = None
        for index in range(max(lengths)):
            rows = [i for i, length in enumerate(lengths) if index < length]
            ids = torch.stack([sequences[i][index * 4 : index * 4 + 4] for i in rows])
            tables = [pages[i][: index + 1] for i in rows]
            forward_blocks(model, cache, ids, tables, only_cache=True)
        last = torch.stack([sequence[-4:] for sequence in sequences])
        hidden = forward_blocks(model, cache, last, pages, only_cache=False)
        assert hidden is not None
        for i, sequence in enumerate(sequences):
            blocks = torch.arange(len(sequence)) // 4
            mask = blocks[None, :] <= blocks[:, None]
            whole, _ = model(sequence[None], torch.arange(len(sequence))[None], mask)
            torch.testing.assert_close(hidden[i], whole[0, -4:], atol=1e-4, rtol=1e-4)


def test_bfloat16_serves(checkpoint: Path, requests: list[EngineRequest]) -> None:
    engine = TorchEngine.load(
        ModelSettings(repo=str(checkpoint), architecture="SDARForCausalLM"),
        EngineSettings(slots=8, device="cpu", threads=1, dtype="bfloat16"),
        DecodingSettings(parameters={"threshold": 0.5}, block_size=4),
    )
    result = engine.serve(requests[:10], fcfs_scheduler(8))
    assert all(
        len(s.output_ids) <= r.budget_tokens
        for s, r in zip(result.requests, requests, strict=False)
    )
    assert engine.fingerprint.dtype == "bfloat16"


def test_requests_arrive_over_time(checkpoint: Path, requests: list[EngineRequest]) -> None:
    engine = load_engine(checkpoint, slots=4)
    late = [replace(r, arrival_s=0.02 * (5 - i)) for i, r in enumerate(requests[:6])]
    result = engine.serve(late, fcfs_scheduler(4))
    for asked, served in zip(late, result.requests, strict=True):
        assert served.request_id == asked.request_id
        assert served.arrival_s == asked.arrival_s <= served.admitted_s
    admitted = [s.admitted_s for s in result.requests]
    assert admitted == sorted(admitted, reverse=True)


def test_serving_twice_gives_the_same_bits(checkpoint: Path, requests: list[EngineRequest]) -> None:
    engine = load_engine(checkpoint)
    first, second = (engine.serve(requests, fcfs_scheduler(8)) for _ in range(2))
    for a, b in zip(first.requests, second.requests, strict=True):
        assert (a.output_ids, a.rounds_per_block) == (b.output_ids, b.rounds_per_block)
        assert a.hidden_mean.tobytes() == b.hidden_mean.tobytes()


def test_finished_requests_are_reported_once(
    checkpoint: Path, requests: list[EngineRequest]
) -> None:
    seen: list[str] = []
    load_engine(checkpoint).serve(
        requests, fcfs_scheduler(8), lambda served: seen.append(served.request_id)
    )
    assert sorted(seen) == sorted(r.request_id for r in requests)


def test_a_model_that_predicts_the_mask_aborts_instead_of_looping(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "m", mask_token_id=0)
    weights = load_file(folder / "model.safetensors")
    weights["model.norm.weight"].zero_()  # all logits equal: token 0, the mask, wins
    save_file(weights, folder / "model.safetensors")
    result = load_engine(folder).serve([EngineRequest("a", (1, 2), 8)], fcfs_scheduler(8))
    (served,) = result.requests
    assert served.finish_reason == "abort"
    assert served.output_ids == ()
    assert served.first_block_s is None
    assert served.rounds_per_block == (5,)


def test_too_long_requests_are_named_before_anything_is_served(checkpoint: Path) -> None:
    context = json.loads((checkpoint / "config.json").read_text())["max_position_embeddings"]
    engine = load_engine(checkpoint)
    fits = EngineRequest("fits", (1,) * (context - 8), 8)
    # 8 more tokens are in the context, but not once rounded up to whole blocks.
    over = EngineRequest("over", (1,) * (context - 7), 8)
    engine.check([fits])
    seen: list[str] = []
    with pytest.raises(
        EngineError, match=r"exceed the context of 256 tokens for 'over' \(249 \+ 8\)"
    ):
        engine.serve([fits, over], fcfs_scheduler(8), lambda s: seen.append(s.request_id))
    assert seen == []


def test_refuses_what_cannot_be_served(checkpoint: Path) -> None:
    engine = load_engine(checkpoint)
    with pytest.raises(EngineError, match="not unique: a"):
        engine.check([EngineRequest("a", (1,), 4), EngineRequest("a", (2,), 4)])
    with pytest.raises(EngineError, match="outside the vocabulary of 261: a"):
        engine.check([EngineRequest("a", (1, 261), 4)])


class _FixedPlan:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def observe(self, events: Iterable[Event]) -> None:
        return

    def plan(self, now: float) -> Plan:
        return self._plan


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (Plan(), "runs nothing, with 0 residents and 2 waiting"),
        (Plan(run=("a",)), "plan is impossible"),
        (Plan(admit=("a", "b"), run=("a",), pause=("b",)), "'b', which needs 3 KV pages"),
    ],
)
def test_a_scheduler_at_fault_is_told(checkpoint: Path, plan: Plan, message: str) -> None:
    engine = load_engine(checkpoint, slots=1)
    requests = [EngineRequest(i, (1,), 8) for i in ("a", "b")]
    with pytest.raises(EngineError, match=message):
        engine.serve(requests, _FixedPlan(plan))


@pytest.mark.parametrize(
    ("engine", "decoding", "message"),
    [
        ({"device": "gpu"}, {}, "engine.device is 'gpu'"),
        ({"device": "cuda:99"}, {}, "engine.device is 'cuda:99', but torch sees"),
        ({}, {"fdfo": False}, "decoding.fdfo=true only"),
        ({}, {"parameters": {"treshold": 0.5}}, "did you mean 'threshold'"),
    ],
)
def test_refuses_settings(
    checkpoint: Path, engine: dict[str, str], decoding: dict[str, object], message: str
) -> None:
    with pytest.raises(EngineError, match=message):
        TorchEngine.load(
            ModelSettings(repo=str(checkpoint), architecture="SDARForCausalLM"),
            EngineSettings(**{"threads": 1, **engine}),  # type: ignore[arg-type]
            DecodingSettings(**{"block_size": 4, **decoding}),  # type: ignore[arg-type]
        )
