"""The built-in engine: serves SDAR checkpoints round by round, as any scheduler decides."""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from collections.abc import Sequence as SequenceOf

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dwise_predict.engines.protocol import (
    EngineRequest,
    Refine,
    Refinement,
    RoundHidden,
    RoundRecord,
    ServedRequest,
    ServeResult,
    Watch,
)
from dwise_predict.engines.torch_engine.allocator import keep_freed_memory
from dwise_predict.engines.torch_engine.checkpoint import Checkpoint, load_checkpoint, locate
from dwise_predict.engines.torch_engine.decoding import (
    Algorithm,
    algorithm_parameters,
    make_algorithm,
)
from dwise_predict.engines.torch_engine.forward import forward_blocks
from dwise_predict.engines.torch_engine.kv_cache import BlockKVCache
from dwise_predict.engines.torch_engine.linear import use_onednn
from dwise_predict.engines.torch_engine.sequence import Sequence, sequence_blocks
from dwise_predict.errors import EngineError
from dwise_predict.fingerprint import Fingerprint
from dwise_predict.recipe import DecodingSettings, EngineSettings, ModelSettings
from dwise_predict.scheduling import (
    Arrived,
    Estimated,
    Event,
    Finished,
    Plan,
    RoundProcessed,
    Scheduler,
    plan_faults,
)
from dwise_predict.workload.schema import Message

ENGINE_VERSION = "1"
"""Raised whenever rounds or hidden states of a request may change for the same checkpoint."""

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class TorchEngine:
    """Block-diffusion serving with a block KV cache on one device.

    One round is one batched forward pass and at most one block of each request (SGLang's
    first-done-first-out mode): a prompt block is processed once, an output block takes part in
    rounds until the decoding algorithm reports it done. Prompt and output blocks may share a
    round. A paused resident keeps its KV and its partial block.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        algorithm: Algorithm,
        settings: EngineSettings,
        fingerprint: Fingerprint,
    ) -> None:
        self.checkpoint = checkpoint
        self.algorithm = algorithm
        self.settings = settings
        self.fingerprint = fingerprint
        self._device = torch.device(settings.device)

    @classmethod
    def load(
        cls, model: ModelSettings, engine: EngineSettings, decoding: DecodingSettings
    ) -> TorchEngine:
        """Load what a recipe asks for.

        Sets the number of torch's CPU threads and the C allocator's policy for the process.
        Raises EngineError when the checkpoint or a setting cannot be served.
        """
        if not decoding.fdfo:
            raise EngineError("the built-in engine has decoding.fdfo=true only")
        algorithm = make_algorithm(decoding.algorithm, decoding.parameters)
        device = _resolve_device(engine.device)
        threads = engine.threads or os.cpu_count() or 1
        torch.set_num_threads(threads)
        keep_freed_memory()
        source = locate(model)
        checkpoint = load_checkpoint(
            source.folder, model.architecture, decoding.block_size, _DTYPES[engine.dtype], device
        )
        if device.type == "cpu" and engine.dtype == "float32":
            use_onednn(checkpoint.model)
        fingerprint = Fingerprint(
            model=source.model,
            revision=source.revision,
            architecture=checkpoint.architecture,
            hidden_size=checkpoint.model.config.hidden_size,
            algorithm=decoding.algorithm,
            algorithm_parameters=algorithm_parameters(algorithm),
            block_size=decoding.block_size,
            fdfo=True,
            budget_tokens=decoding.budget_tokens,
            engine="torch",
            engine_version=ENGINE_VERSION,
            dtype=engine.dtype,
        )
        resolved = engine.model_copy(update={"device": str(device), "threads": threads})
        return cls(checkpoint, algorithm, resolved, fingerprint)

    def encode(self, messages: SequenceOf[Message]) -> list[int]:
        """Token ids of a chat with the chat template applied, generation prompt included."""
        return self.checkpoint.tokenizer.encode(messages)

    def decode(self, ids: SequenceOf[int]) -> str:
        """Text of token ids, special tokens left out."""
        return self.checkpoint.tokenizer.decode(ids)

    def check(self, requests: SequenceOf[EngineRequest]) -> None:
        """Raise EngineError when ``requests`` cannot all be served; names those at fault."""
        counts = Counter(request.request_id for request in requests)
        if twice := [request_id for request_id, count in counts.items() if count > 1]:
            raise EngineError(f"request ids are not unique: {_some(twice)}")
        config = self.checkpoint.model.config
        context, block_size = config.max_position_embeddings, self.checkpoint.block_size
        too_long = [
            f"{r.request_id!r} ({len(r.prompt_ids)} + {r.budget_tokens})"
            for r in requests
            if sequence_blocks(r, block_size) * block_size > context
        ]
        if too_long:
            raise EngineError(
                f"prompt + budget tokens, rounded up to blocks of {block_size}, exceed the "
                f"context of {context} tokens for {_some(too_long)}: shorten the prompts or "
                "lower decoding.budget_tokens or their max_new_tokens"
            )
        strange = [
            r.request_id
            for r in requests
            if r.prompt_ids and not 0 <= min(r.prompt_ids) <= max(r.prompt_ids) < config.vocab_size
        ]
        if strange:
            raise EngineError(
                f"token ids outside the vocabulary of {config.vocab_size}: {_some(strange)}"
            )

    @torch.inference_mode()
    def serve(
        self,
        requests: SequenceOf[EngineRequest],
        scheduler: Scheduler,
        on_finished: Callable[[ServedRequest], None] | None = None,
        kv_tokens: int | None = None,
        refine: Refine | None = None,
        watch: Watch | None = None,
    ) -> ServeResult:
        """Serve ``requests`` to their end, starting from an empty engine.

        Args:
            requests: arrive by ``arrival_s``, and in this order when at the same time.
            scheduler: fresh; decides every round.
            on_finished: called as each request finishes.
            kv_tokens: size of the KV cache; None: room for the ``slots`` largest reservations
                (prompt + budget). Schedulers with more residents than slots need more, and
                :class:`~dwise_predict.scheduling.ResidencyLimits` with this number keep to it.
            refine: asked once a round for all requests that had their first denoising round in
                it, as part of the round; None: the scheduler keeps what it was told at arrival.
            watch: asked instead in every round about all requests in it. Rounds of prompt blocks
                alone then also compute the end of the last layer, which nothing else needs.

        Raises:
            EngineError: as :meth:`check`, or the scheduler refused a request, made a plan that
                cannot be carried out, or runs nothing although no request is still to come; or
                both ``refine`` and ``watch`` are given.
        """
        if refine is not None and watch is not None:
            raise EngineError("give refine or watch: a request has one estimate at a time")
        self.check(requests)
        block_size = self.checkpoint.block_size
        if kv_tokens is None:
            largest = sorted((sequence_blocks(r, block_size) for r in requests), reverse=True)
            pages = sum(largest[: self.settings.slots])
        else:
            pages = kv_tokens // block_size
        cache = BlockKVCache(
            self.checkpoint.model.config,
            pages,
            block_size,
            _DTYPES[self.settings.dtype],
            self._device,
        )
        run = _Run(self, cache, requests, on_finished, refine, watch)
        run.to_the_end(scheduler)
        if cache.free != cache.pages:
            raise EngineError(f"internal: {cache.pages - cache.free} KV pages were not freed")
        return ServeResult([sequence.served() for sequence in run.sequences], run.rounds)


class _Run:
    """One call of :meth:`TorchEngine.serve`: who is where, and the clock."""

    def __init__(
        self,
        engine: TorchEngine,
        cache: BlockKVCache,
        requests: SequenceOf[EngineRequest],
        on_finished: Callable[[ServedRequest], None] | None,
        refine: Refine | None,
        watch: Watch | None,
    ) -> None:
        checkpoint = engine.checkpoint
        self.model = checkpoint.model
        self.algorithm = engine.algorithm
        self.slots = engine.settings.slots
        self.block_size, self.mask_id = checkpoint.block_size, checkpoint.mask_id
        self.eos_ids = checkpoint.eos_ids
        self.max_rounds = engine.algorithm.max_rounds(self.block_size)
        self.device = torch.device(engine.settings.device)
        self.cache = cache
        self.on_finished = on_finished
        self.refine, self.watch = refine, watch
        self.sequences = [Sequence(r, self.block_size, self.mask_id) for r in requests]
        self.coming = deque(sorted(self.sequences, key=lambda s: s.request.arrival_s))
        self.waiting: dict[str, Sequence] = {}
        self.residents: dict[str, Sequence] = {}
        self.rounds: list[RoundRecord] = []
        self.started = time.perf_counter()

    def to_the_end(self, scheduler: Scheduler) -> None:
        """Run rounds until every request has finished."""
        events: list[Event] = []
        while self.coming or self.waiting or self.residents:
            now = self._now()
            events.extend(self._arrivals(now))
            try:
                scheduler.observe(events)
            except ValueError as error:
                raise EngineError(f"the scheduler refuses what it is told: {error}") from error
            plan = scheduler.plan(now)
            self._admit(plan, now)
            if plan.run:
                events = self._round([self.residents[i] for i in plan.run], now)
            elif self.coming:
                events = []
                time.sleep(max(0.0, self.coming[0].request.arrival_s - self._now()))
            else:
                raise EngineError(
                    f"the scheduler runs nothing, with {len(self.residents)} residents and "
                    f"{len(self.waiting)} waiting requests"
                )
        scheduler.observe(events)

    def _now(self) -> float:
        return time.perf_counter() - self.started

    def _arrivals(self, now: float) -> list[Event]:
        events: list[Event] = []
        while self.coming and self.coming[0].request.arrival_s <= now:
            sequence = self.coming.popleft()
            request = sequence.request
            self.waiting[request.request_id] = sequence
            events.append(
                Arrived(
                    request_id=request.request_id,
                    arrival_s=request.arrival_s,
                    prompt_tokens=len(request.prompt_ids),
                    prompt_blocks=sequence.prompt_blocks,
                    budget_tokens=request.budget_tokens,
                    estimate=request.estimate,
                )
            )
        return events

    def _admit(self, plan: Plan, now: float) -> None:
        if faults := plan_faults(plan, self.waiting, self.residents, self.slots):
            raise EngineError(f"the scheduler's plan is impossible: {'; '.join(faults)}")
        for request_id in plan.admit:
            sequence = self.waiting.pop(request_id)
            sequence.pages = self.cache.allocate(sequence.reserved_pages, request_id)
            sequence.admitted_s = now
            self.residents[request_id] = sequence

    def _round(self, rows: list[Sequence], start: float) -> list[Event]:
        """One forward pass over ``rows`` and what follows from it."""
        rows = sorted(rows, key=lambda row: row.block_index)
        prefilling = [row.prefilling for row in rows]
        residents, waiting = len(self.residents), len(self.waiting)
        kv_tokens = sum(row.block_index for row in rows) * self.block_size
        hidden = forward_blocks(
            self.model,
            self.cache,
            torch.tensor([row.block for row in rows], device=self.device),
            [row.pages[: row.block_index + 1] for row in rows],
            only_cache=self.watch is None and all(prefilling),
        )
        denoising = [i for i, is_prompt in enumerate(prefilling) if not is_prompt]
        output_rows, output = [rows[i] for i in denoising], _rows(hidden, denoising, len(rows))
        refinements = self._first_round(output_rows, output)
        if self.watch is not None and hidden is not None:
            refinements = self.watch(_seen(rows, prefilling, hidden))
        done = self._denoise(output_rows, output)
        now = self._now()
        for row, is_prompt in zip(rows, prefilling, strict=True):
            if is_prompt:
                row.advance()
        for i, is_done in zip(denoising, done, strict=True):
            self._settle(rows[i], is_done, now)
        self.rounds.append(
            RoundRecord(
                index=len(self.rounds),
                start_s=start,
                wall_ms=(now - start) * 1e3,
                slots=len(rows),
                prefill_slots=sum(prefilling),
                kv_tokens=kv_tokens,
                residents=residents,
                waiting=waiting,
            )
        )
        return self._events(rows, prefilling, refinements)

    def _denoise(self, rows: list[Sequence], hidden: Tensor | None) -> list[bool]:
        """Advance the output blocks of ``rows``; returns which of them are done.

        ``hidden`` is [N, block, hidden]; None when there are no rows.
        """
        if hidden is None:
            return []
        done = [True] * len(rows)
        stepping = [
            i for i, row in enumerate(rows) if self.algorithm.edits_complete_blocks or row.has_masks
        ]
        if not stepping:
            return done
        active = [rows[i] for i in stepping]
        selected = _rows(hidden, stepping, len(rows))
        assert selected is not None
        device = self.device
        prompt = torch.tensor([row.prompt_in_block for row in active], device=device)
        step = self.algorithm.step(
            self.model.logits(selected),
            torch.tensor([row.block for row in active], device=device),
            torch.arange(self.block_size, device=device) < prompt[:, None],
            torch.tensor([row.post_edits for row in active], device=device),
            self.mask_id,
        )
        blocks, ended, edits = step.ids.tolist(), step.done.tolist(), step.post_edits.tolist()
        for i, row, block, is_done, count in zip(
            stepping, active, blocks, ended, edits, strict=True
        ):
            row.block, row.post_edits, done[i] = block, count, is_done
        return done

    def _first_round(self, rows: list[Sequence], hidden: Tensor | None) -> Mapping[str, Refinement]:
        """Keep the hidden means of rows in their first denoising round; what is refined by them."""
        first = [i for i, row in enumerate(rows) if row.hidden_mean is None]
        chosen = _rows(hidden, first, len(rows))
        if chosen is None:
            return {}
        means = _means(chosen)
        for i, mean in zip(first, means, strict=True):
            rows[i].hidden_mean = np.ascontiguousarray(mean)
        if self.refine is None:
            return {}
        requests = [rows[i].request for i in first]
        answers = self.refine(means, requests)
        return {r.request_id: answer for r, answer in zip(requests, answers, strict=True)}

    def _settle(self, row: Sequence, done: bool, now: float) -> None:
        """Count the denoising round that ``row`` took part in, and end its block if done."""
        row.rounds_in_block += 1
        if row.first_round_s is None:
            row.first_round_s = now
        if done:
            row.commit(now, self.eos_ids)
        elif row.rounds_in_block >= self.max_rounds:
            row.abort(now)

    def _events(
        self, rows: list[Sequence], prefilling: list[bool], refinements: Mapping[str, Refinement]
    ) -> list[Event]:
        """Events of a round; finished rows leave and free their pages."""
        prompt: list[str] = []
        denoised: list[str] = []
        committed: list[str] = []
        events: list[Event] = [RoundProcessed(prompt, denoised, committed)]
        for row, is_prompt in zip(rows, prefilling, strict=True):
            request_id = row.request.request_id
            (prompt if is_prompt else denoised).append(request_id)
            if not is_prompt and row.rounds_in_block == 0:
                committed.append(request_id)
            if row.finish_reason is not None:
                events.append(Finished(request_id))
                self.cache.release(row.pages)
                del self.residents[request_id]
                if self.on_finished is not None:
                    self.on_finished(row.served())
            elif (refinement := refinements.get(request_id)) is not None:
                if row.rounds == 1:
                    row.refined = refinement.remaining
                events.append(Estimated(request_id, refinement.remaining, refinement.residual))
        return events


def _seen(rows: list[Sequence], prefilling: list[bool], hidden: Tensor) -> RoundHidden:
    return RoundHidden(
        requests=[row.request for row in rows],
        prefilling=prefilling,
        rounds=[row.rounds for row in rows],
        block_rounds=[row.rounds_in_block for row in rows],
        output_tokens=[len(row.output) for row in rows],
        means=_means(hidden),
    )


def _means(hidden: Tensor) -> npt.NDArray[np.float16]:
    """Mean over positions of [n, block, hidden]."""
    means: npt.NDArray[np.float16] = hidden.float().mean(1).half().cpu().numpy()
    return means


def _rows(x: Tensor | None, indices: list[int], total: int) -> Tensor | None:
    """Rows ``indices`` of ``x`` without a copy when they are all; None when there are none."""
    if x is None or not indices:
        return None
    return x if len(indices) == total else x[indices]


def _resolve_device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise EngineError(
            f"engine.device is {name!r}, expected auto, cpu, cuda or cuda:N"
        ) from error
    if device.type not in ("cpu", "cuda"):
        raise EngineError(f"engine.device is {name!r}, expected auto, cpu, cuda or cuda:N")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise EngineError(
            f"engine.device is {name!r}, but torch sees {torch.cuda.device_count()} CUDA devices"
        )
    return device


def _some(names: SequenceOf[str], limit: int = 5) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more
