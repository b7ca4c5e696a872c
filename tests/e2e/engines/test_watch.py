"""What watches a serving engine sees, and that watching changes nothing."""

from __future__ import annotations

import random
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pytest

from dwise_predict.engines.protocol import (
    EngineRequest,
    Refinement,
    RoundHidden,
    ServeResult,
)
from dwise_predict.engines.torch_engine.engine import TorchEngine
from dwise_predict.errors import EngineError
from dwise_predict.scheduling import (
    ResidencyLimits,
    RoundScheduler,
    build_scheduler,
    fcfs_scheduler,
    make_policy,
)
from tests.checkpoints import write_checkpoint
from tests.engines import load_engine

BLOCK, SLOTS = 4, 4


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> TorchEngine:
    folder = tmp_path_factory.mktemp("model") / "m"
    return load_engine(write_checkpoint(folder, sharpness=2.0), slots=SLOTS)


@pytest.fixture(scope="module")
def requests() -> list[EngineRequest]:
    rng = random.Random(3)
    lengths = [1, 4, 30, *(rng.randrange(1, 40) for _ in range(12))]
    return [
        EngineRequest(f"r{i}", tuple(rng.randrange(256) for _ in range(n)), 14, estimate=9.0)
        for i, n in enumerate(lengths)
    ]


def scheduler() -> RoundScheduler:
    return build_scheduler(make_policy("dwise"), "mixed_phase", ResidencyLimits(SLOTS, BLOCK))


class Seen:
    """Keeps every round; answers with what is left of a fixed number of rounds."""

    def __init__(self, total: float | None = None) -> None:
        self.rounds: list[RoundHidden] = []
        self.total = total

    def __call__(self, seen: RoundHidden) -> Mapping[str, Refinement]:
        self.rounds.append(seen)
        if self.total is None:
            return {}
        return {
            request.request_id: Refinement(max(self.total - rounds - 1, 0.0))
            for request, rounds in zip(seen.requests, seen.rounds, strict=True)
        }


def means_of(
    rounds: list[RoundHidden], request_id: str, prompt: bool
) -> list[npt.NDArray[np.float16]]:
    return [
        seen.means[i]
        for seen in rounds
        for i, request in enumerate(seen.requests)
        if request.request_id == request_id and seen.prefilling[i] is prompt
    ]


def test_watching_changes_nothing_and_sees_every_block(
    engine: TorchEngine, requests: list[EngineRequest]
) -> None:
    plain = engine.serve(requests, fcfs_scheduler(SLOTS))
    watch = Seen()
    watched = engine.serve(requests, fcfs_scheduler(SLOTS), watch=watch)

    def work(result: ServeResult) -> list[object]:
        return [(r.output_ids, r.rounds_per_block, r.refined) for r in result.requests]

    def slots(result: ServeResult) -> list[object]:
        return [(r.slots, r.prefill_slots, r.residents, r.waiting) for r in result.rounds]

    assert work(watched) == work(plain)
    assert slots(watched) == slots(plain)
    assert [len(seen.requests) for seen in watch.rounds] == [r.slots for r in watched.rounds]
    assert any(all(seen.prefilling) for seen in watch.rounds)
    for request, served in zip(requests, watched.requests, strict=True):
        prompts = means_of(watch.rounds, request.request_id, prompt=True)
        assert len(prompts) == len(request.prompt_ids) // BLOCK
        denoising = means_of(watch.rounds, request.request_id, prompt=False)
        assert len(denoising) == sum(served.rounds_per_block)
        np.testing.assert_array_equal(denoising[0], served.hidden_mean)


def test_rounds_blocks_and_tokens_are_counted_before_the_round(
    engine: TorchEngine, requests: list[EngineRequest]
) -> None:
    watch = Seen()
    result = engine.serve(requests, scheduler(), kv_tokens=4096, watch=watch)
    for request, served in zip(requests, result.requests, strict=True):
        own = [
            (seen.rounds[i], seen.block_rounds[i], seen.output_tokens[i])
            for seen in watch.rounds
            for i, other in enumerate(seen.requests)
            if other is request and not seen.prefilling[i]
        ]
        assert [rounds for rounds, _, _ in own] == list(range(sum(served.rounds_per_block)))
        first = [in_block for _, in_block, _ in own].count(0)
        assert first == len(served.rounds_per_block)
        first_block = BLOCK - len(request.prompt_ids) % BLOCK
        assert {tokens for _, _, tokens in own[: served.rounds_per_block[0]]} == {0}
        if len(served.rounds_per_block) > 1:
            assert own[served.rounds_per_block[0]][2] == first_block


def test_answers_of_every_round_reach_the_scheduler(
    engine: TorchEngine, requests: list[EngineRequest]
) -> None:
    ranked = scheduler()
    result = engine.serve(requests, ranked, kv_tokens=4096, watch=Seen(total=20.0))
    rounds = sum(sum(served.rounds_per_block) for served in result.requests)
    prompts = sum(len(request.prompt_ids) // BLOCK for request in requests)
    # Whoever ends in a round is not told about it.
    assert ranked.counters.estimates == rounds + prompts - len(requests)
    assert {served.refined for served in result.requests} == {19.0}


def test_only_one_of_refine_and_watch_is_taken(
    engine: TorchEngine, requests: list[EngineRequest]
) -> None:
    with pytest.raises(EngineError, match="refine or watch"):
        engine.serve(requests, scheduler(), refine=lambda means, asked: [], watch=Seen())
