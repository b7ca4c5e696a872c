"""The plugin inside one scheduler process: follows every request and every round."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from dwise_predict.engines.hidden_tap import HiddenTap
from dwise_predict.errors import DwiseError
from dwise_predict.plugin.activation import Activation
from dwise_predict.plugin.metrics import Counts, Exporter
from dwise_predict.plugin.recorder import Recorder
from dwise_predict.plugin.requests import Tracked
from dwise_predict.sglang import compat
from dwise_predict.sglang.planner import Planner
from dwise_predict.sglang.requests import track

_log = logging.getLogger(__name__)


class Runtime:
    """What the hooks call. Made before the scheduler, whose CUDA graphs capture the tap."""

    def __init__(self, activation: Activation) -> None:
        self.activation = activation
        self.counts = Counts()
        self.tracked: dict[str, Tracked] = {}
        self.planner: Planner | None = None
        self.recorder: Recorder | None = None
        self.tap: HiddenTap | None = None
        self._scheduler: Any = None
        self._exporter: Exporter | None = None
        self._rows: list[Tracked] = []
        self._starts: Sequence[int] = ()
        self._lengths: Sequence[int] = ()
        self._opening: list[tuple[int, Tracked]] = []
        self._masks = False
        self._masked: list[int] = []
        self._first: list[int] = []
        self._arrivals = 0
        self._origin = time.perf_counter()
        self._round_s = 0.0

    def make_tap(self) -> None:
        """Have hidden states pooled, if anything is to be made of them."""
        fingerprint, settings = self.activation.fingerprint, self.activation.settings
        assert fingerprint is not None and settings is not None
        bundle = self.activation.bundle
        if bundle is not None or settings.profile is not None:
            self.tap = HiddenTap(
                fingerprint.block_size,
                compat.graph_rows(self.activation.slots),
                None if bundle is None else bundle.refiner,
                curves=settings.curves,
            )

    def attach(self, scheduler: Any) -> None:
        """Begin to act: ``scheduler`` is complete now."""
        self._scheduler = scheduler
        self._block_size = scheduler.dllm_config.block_size
        self._separate = compat.separate_context(scheduler.dllm_config)
        settings, fingerprint = self.activation.settings, self.activation.fingerprint
        assert settings is not None and fingerprint is not None
        rank, mode = compat.ranks()[0], self.activation.mode
        if mode == "schedule":
            self.planner = Planner(self.activation, scheduler, self.tracked, self.counts, self._now)
        if settings.profile is not None and rank == 0 and mode != "off":
            self.recorder = Recorder(settings, fingerprint, self.activation.slots, self._separate)
        if scheduler.metrics_reporter.enable_metrics:
            self._exporter = Exporter(self.activation, rank, compat.replica(scheduler))
            self._publish(force=True)

    @property
    def acts(self) -> bool:
        """Whether there is anything for the hooks to do."""
        return self.planner is not None or self.recorder is not None

    def fault(self, doing: str, error: Exception) -> None:
        """End the plugin's part after ``error``; SGLang's own scheduling goes on from here."""
        _log.error(
            "DWISE FAILED while it %s and has ended, stock FCFS serves: %s",
            doing,
            error,
            exc_info=not isinstance(error, DwiseError),
        )
        self.counts.fallbacks["fault"] += 1
        reason = f"it failed while it {doing}: {error or type(error).__name__}"
        self.activation = replace(self.activation, reason=reason)
        self.planner = self.recorder = None
        if self.tap is not None:
            self.tap.begin_round(())
        if self._exporter is not None:
            self._exporter.ended(self.counts)

    def arrived(self, req: Any) -> None:
        """A request joined the queue; one that could never be served is answered at once."""
        config = self._scheduler.dllm_config
        if req.dllm_config is None:
            # Made for a session. SGLang 0.5.20 itself would leave it in the queue for ever.
            compat.refuse(
                self._scheduler, req, "diffusion models serve no sessions: leave session_params out"
            )
            return
        tracked = track(req, self._arrivals, self._now(), config, self._separate)
        self._arrivals += 1
        if self.planner is not None:
            if reason := self.planner.fit(tracked):
                compat.refuse(self._scheduler, req, reason)
                return
            self.planner.arrived(req.rid, tracked)
        if self.recorder is not None:
            self.recorder.arrived(tracked, req.origin_input_ids)
        self._masks |= tracked.has_mask
        req._dwise = self.tracked[req.rid] = tracked

    def hold_rows(self, request_id: str, everyone: bool) -> None:
        """Prepare residents for an abort, see :func:`compat.hold_row`; not of stock FCFS."""
        if self.planner is None:
            return
        for req in self._scheduler.dllm_manager.waiting_queue:
            if everyone or req.rid.startswith(request_id):
                compat.hold_row(req, self._scheduler.req_to_token_pool)

    def synchronise(self, aborted: bool = False) -> None:
        """Notice requests that left without finishing: aborted, timed out.

        Before a round, as many requests in the queues as are tracked means the same requests. At
        an abort, residents that finished may still be there.
        """
        queues = (self._scheduler.waiting_queue, self._scheduler.dllm_manager.waiting_queue)
        if not aborted and sum(map(len, queues)) == len(self.tracked):
            return
        present = {req.rid for queue in queues for req in queue}
        for request_id in [i for i in self.tracked if i not in present]:
            self._forget(request_id)
        self._publish(force=not self.tracked)

    def round_started(self, batch: Any) -> None:
        """A round was formed: remember its rows, and have first rounds pooled."""
        separate, starts, lengths = self._separate, batch.prefix_lens, batch.extend_lens
        context_pass = separate and not batch.forward_mode.is_dllm_extend()
        rows = [req._dwise for req in batch.reqs]
        first = []
        # Most rows have denoised before: there is nothing to find out.
        opening = [
            (i, row)
            for i, row in enumerate(rows)
            if separate or row.prompt_blocks_left or not row.rounds
        ]
        for i, tracked in opening:
            if tracked.prompt_blocks_left and not separate:
                tracked.prefill = starts[i] + lengths[i] <= tracked.prompt_tokens
            else:
                tracked.prefill = context_pass
            if not (tracked.rounds or tracked.prefill):
                first.append(i)
        if self.tap is not None:
            self.tap.begin_round([(i, rows[i].prompt_tokens, rows[i].budget_tokens) for i in first])
        self._opening = opening
        if self._masks:
            self._masked = [i for i, row in enumerate(rows) if row.has_mask]
        self._rows, self._first, self._starts, self._lengths = rows, first, starts, lengths
        self._round_s = self._now()
        if self.planner is None:
            for req in self._scheduler.dllm_manager.waiting_queue:
                if req._dwise.admitted_s is None:
                    req._dwise.admitted_s = self._round_s

    def settle_prompts(self, result: Any) -> None:
        """Before SGLang commits a round: see :func:`compat.settle_prompt`."""
        for i in self._masked:
            if result.accept_length_per_req_cpu[i]:
                tracked = self._rows[i]
                end = self._starts[i] + self._lengths[i]
                compat.settle_prompt(tracked.req, end, result.next_token_ids[i])

    def round_finished(self, accepted: Sequence[int] | None) -> None:
        """The results of the round are committed; ``accepted``: tokens by row, None: all."""
        rows, now = self._rows, self._now()
        tokens = accepted or [1] * len(rows)
        prompt: list[Tracked] = []
        for i, tracked in self._opening:
            if tracked.prompt_blocks_left:
                prompt += [tracked] * self._advance_prompt(tracked, i, tokens[i] > 0)
        denoising = [row for row in rows if not row.prefill]
        for tracked in denoising:
            tracked.rounds += 1
        committed, ended = [], []
        for i in [i for i, taken in enumerate(tokens) if taken]:
            tracked = rows[i]
            if not tracked.prefill:
                committed.append(tracked)
                tracked.block_done(now)
            # SGLang ends a request, an aborted one too, only where it commits a block.
            if tracked.req.finished():
                ended.append(tracked)
        if self.planner is not None:
            self.planner.processed(prompt, denoising, committed)
        if self._first and self.tap is not None:
            self._first_rounds(self._first, self.tap)
        self._count(rows)
        if self.recorder is not None:
            kv_tokens = sum(self._starts)
            self._record(lambda it: it.round(self._round_s, now, rows, kv_tokens, self.counts))
        for tracked in ended:
            self._forget(tracked.request_id, now)
        self._publish(force=not self.tracked)

    def state(self) -> dict[str, object]:
        """For ``/server_info``."""
        core = None if self.planner is None else self.planner.core.counters
        totals = {**self.counts.totals(core), "fallbacks": dict(self.counts.fallbacks)}
        recording = None if self.recorder is None else str(self.recorder.writer.folder)
        fingerprint = self.activation.fingerprint
        serves = None if fingerprint is None else fingerprint.model_dump()
        self._count_present()
        present = {name: getattr(self.counts, name) for name in ("residents", "running", "waiting")}
        replica = compat.replica(self._scheduler)
        own = {"dp_rank": replica, "serves": serves, "recording": recording}
        return {**self.activation.describe(), **own, **present, **totals}

    def _now(self) -> float:
        return time.perf_counter() - self._origin

    def _advance_prompt(self, tracked: Tracked, row: int, done: bool) -> int:
        """Prompt blocks that are done with this round, those in the prefix cache included."""
        start = self._starts[row]
        end = start + self._lengths[row]
        if self._separate:
            left = int(tracked.prefill and end < tracked.prompt_tokens)
        else:
            cached = end if tracked.prefill and done else start
            left = max(0, tracked.prompt_blocks - cached // self._block_size)
        before, tracked.prompt_blocks_left = tracked.prompt_blocks_left, left
        return max(0, before - left)

    def _first_rounds(self, first: list[int], tap: HiddenTap) -> None:
        rows = self._rows
        if recorded := [i for i in first if rows[i].prompt_ids is not None]:
            for i, mean in zip(recorded, tap.means(recorded), strict=True):
                rows[i].hidden, rows[i].first_round_s = mean, self._round_s
        if self.planner is not None and tap.refines:
            going_on = [i for i in first if not rows[i].req.finished()]
            if going_on:
                self.planner.refined([rows[i] for i in going_on], tap.estimates(going_on))

    def _forget(self, request_id: str, finished_s: float | None = None) -> None:
        tracked = self.tracked.pop(request_id)
        if self.planner is not None:
            self.planner.departed(request_id)
            if finished_s is not None:
                self.counts.ratios(tracked)
        if self.recorder is not None:
            end_s = self._now() if finished_s is None else finished_s
            output_tokens, reason = compat.outcome(tracked.req)
            self._record(lambda it: it.request(tracked, end_s, output_tokens, reason))
        # They refer to each other; memory is not to wait for the garbage collector.
        tracked.req = None

    def _record(self, write: Callable[[Recorder], None]) -> None:
        """Record beside scheduling: what cannot be written must not end that."""
        assert self.recorder is not None
        try:
            write(self.recorder)
        except Exception as error:
            if self.planner is None:
                raise
            _log.exception("DWISE STOPS RECORDING into %s: %s", self.recorder.writer.folder, error)
            self.counts.fallbacks["recording_failed"] += 1
            self.recorder = None

    def _count(self, rows: list[Tracked]) -> None:
        counts = self.counts
        counts.rounds += 1
        counts.prefill_only_rounds += all(row.prefill for row in rows)
        counts.filled_slots += len(rows)
        counts.running = len(rows)
        counts.residents = len(self._scheduler.dllm_manager.waiting_queue)
        counts.waiting = len(self._scheduler.waiting_queue)

    def _count_present(self) -> None:
        """As :meth:`_count` between rounds, when the residents that finished do not count."""
        counts = self.counts
        residents = self._scheduler.dllm_manager.waiting_queue
        counts.residents = sum(not req.finished() for req in residents)
        counts.waiting = len(self._scheduler.waiting_queue)
        counts.running = min(counts.running, counts.residents)

    def _publish(self, force: bool = False) -> None:
        if force:
            self._count_present()
        if self._exporter is not None:
            core = None if self.planner is None else self.planner.core.counters
            self._exporter.publish(self.counts, core, force)
        else:
            self.counts.clear_unpublished()
