"""Requests on their way into an engine, and what a profile or a results folder keeps of them."""

from __future__ import annotations

from dwise_predict.engines.protocol import Engine, EngineRequest, ServedRequest
from dwise_predict.work import prefill_blocks
from dwise_predict.workload.answers import answer_correct
from dwise_predict.workload.schema import Request, newline_count, word_count


def engine_request(
    request: Request,
    engine: Engine,
    budget_tokens: int,
    arrival_s: float = 0.0,
) -> EngineRequest:
    """The request as ``engine`` takes it; ``budget_tokens`` is for requests without their own."""
    return EngineRequest(
        request_id=request.request_id,
        prompt_ids=tuple(engine.encode(request.messages)),
        budget_tokens=request.max_new_tokens or budget_tokens,
        arrival_s=arrival_s,
    )


def request_row(
    request: Request, asked: EngineRequest, served: ServedRequest, engine: Engine
) -> dict[str, object]:
    """The columns of requests.parquet that profiles and results share."""
    correct = None
    if request.answer is not None:
        correct = answer_correct(request.answer, engine.decode(served.output_ids))
    return {
        "request_id": request.request_id,
        "category": request.category,
        "dataset": request.dataset,
        "split": request.split,
        "prompt_sha256": request.prompt_sha256,
        "words": word_count(request.text),
        "newlines": newline_count(request.text),
        "prompt_tokens": len(asked.prompt_ids),
        "prompt_blocks": prefill_blocks(len(asked.prompt_ids), engine.fingerprint.block_size),
        "budget_tokens": asked.budget_tokens,
        "output_tokens": len(served.output_ids),
        "output_blocks": len(served.rounds_per_block),
        "rounds": sum(served.rounds_per_block),
        "rounds_per_block": list(served.rounds_per_block),
        "first_block_masked": served.first_block_masked,
        "finish_reason": served.finish_reason,
        "answer_correct": correct,
        "arrival_s": served.arrival_s,
        "admitted_s": served.admitted_s,
        "first_round_s": served.first_round_s,
        "first_block_s": served.first_block_s,
        "finished_s": served.finished_s,
    }
