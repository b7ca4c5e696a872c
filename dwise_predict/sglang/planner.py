"""Scheduling mode: the package's scheduler decides, SGLang's own methods carry it out."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from typing import Any

from dwise_predict.errors import EngineError
from dwise_predict.plugin.activation import Activation
from dwise_predict.plugin.estimates import admission_estimate
from dwise_predict.plugin.metrics import Counts
from dwise_predict.plugin.requests import Tracked
from dwise_predict.scheduling import (
    Arrived,
    Estimated,
    Event,
    Finished,
    Plan,
    ResidencyLimits,
    build_scheduler,
    make_policy,
)
from dwise_predict.sglang import compat


class RankMismatchError(EngineError):
    """Tensor-parallel ranks planned different rounds: going on would mix up requests."""


class Planner:
    """Tells the scheduler what happened, and has each round formed as it decides.

    ``events`` are what it is told of before the next plan.

    Everything it decides from is the same on every tensor-parallel rank: the order of arrival,
    tokens, and predictions (refined ones are taken from rank 0).
    """

    def __init__(
        self,
        activation: Activation,
        scheduler: Any,
        tracked: Mapping[str, Tracked],
        counts: Counts,
        clock: Callable[[], float],
    ) -> None:
        settings = activation.settings
        assert settings is not None
        self._scheduler = scheduler
        self._tracked = tracked
        self._counts = counts
        self._clock = clock
        self._bundle = activation.bundle
        self._check_ranks = settings.check_ranks
        self._ranks = compat.ranks()[1]
        self.events: list[Event] = []
        self._plan = Plan()
        rows = scheduler.req_to_token_pool.size
        self.limits = ResidencyLimits(
            slots=activation.slots,
            block_size=scheduler.dllm_config.block_size,
            multiplier=max(1, min(settings.resident_multiplier, rows // activation.slots)),
            kv_tokens=scheduler.max_total_num_tokens,
        )
        # Priorities of requests count where SGLang is told that they do; 0 where not.
        self._tier = 0
        if scheduler.enable_priority_scheduling:
            self._tier = 1 if scheduler.schedule_low_priority_values_first else -1
        self._curves = settings.curves
        name = settings.policy.partition("-")[0]
        policy = make_policy(name, {"estimate": "residual"} if self._curves else {})
        self.core = build_scheduler(policy, "mixed_phase", self.limits)

    def fit(self, tracked: Tracked) -> str:
        """Shorten the budget to what the KV pool holds; empty, or why it holds nothing.

        SGLang does so as well, but leaves no room for the last block: it takes the request, and
        never schedules it if the budget is counted in full, which it is up to 4,096 tokens. It
        adds a page for itself, and rounds up to pages.
        """
        pool = self._scheduler.max_total_num_tokens
        taken = tracked.prompt_tokens + self.limits.block_size + 2 * self._scheduler.page_size
        if (room := pool - taken - 1) > 0:
            tracked.budget_tokens = min(tracked.budget_tokens, room)
            compat.set_budget(tracked.req, tracked.budget_tokens)
            return ""
        return (
            f"the prompt's {tracked.prompt_tokens} tokens leave no room for an answer in this "
            f"server's {pool} tokens of KV cache"
        )

    def arrived(self, request_id: str, tracked: Tracked) -> None:
        """Estimate a request and tell the scheduler."""
        if self._bundle is None:
            tracked.estimate = 0.0
        else:
            prompt_ids = tracked.req.origin_input_ids
            tracked.estimate = admission_estimate(self._bundle, tracked, prompt_ids, self._counts)
        # A request over the share of the pool that may be reserved takes all of it: it runs alone.
        most = (int(self.limits.pool_blocks) - self.limits.slack_blocks) * self.limits.block_size
        prompt_tokens = min(tracked.prompt_tokens, most - 1)
        self.events.append(
            Arrived(
                request_id=request_id,
                arrival_s=float(tracked.order),
                prompt_tokens=prompt_tokens,
                prompt_blocks=tracked.prompt_blocks,
                budget_tokens=min(tracked.budget_tokens, most - prompt_tokens),
                estimate=tracked.estimate,
                tier=self._tier * tracked.req.priority if self._tier else 0,
            )
        )

    def processed(
        self, prompt: list[Tracked], denoised: list[Tracked], committed: list[Tracked]
    ) -> None:
        """Rows of the last round did what they are named for."""
        self.core.processed(
            [tracked.state for tracked in prompt],
            [tracked.state for tracked in denoised],
            [tracked.state for tracked in committed],
        )

    def departed(self, request_id: str) -> None:
        """A request finished or was aborted."""
        self.events.append(Finished(request_id))

    def refined(self, requests: list[Tracked], curves: list[list[float]]) -> None:
        """Take refined estimates of each request: now or by further rounds, 1 or K + 1."""
        if self._ranks > 1:
            curves = compat.from_first_rank(curves, self._scheduler.tp_cpu_group)
        for tracked, curve in zip(requests, curves, strict=True):
            if not math.isfinite(curve[0]):
                self._counts.fallbacks["refined_not_finite"] += 1
                continue
            tracked.refined = curve[0]
            self._counts.refinements += 1
            residual = curve if self._curves else None
            self.events.append(Estimated(tracked.request_id, curve[0], residual))

    def plan(self) -> None:
        """Decide the next round and move admitted requests to SGLang's residents."""
        started = self._clock()
        scheduler = self._scheduler
        events, self.events = self.events, []
        self.core.observe(events)
        self._plan = plan = self.core.plan(0.0)
        if self._check_ranks:
            self._compare(plan)
        if plan.admit:
            admitted = [self._tracked[request_id] for request_id in plan.admit]
            for tracked in admitted:
                tracked.admitted_s = started
                tracked.state = self.core.state(tracked.request_id)
                scheduler.dllm_manager.waiting_queue.append(tracked.req)
            # By identity: the queue may be long, and to read of each request is slow.
            leaving = {id(tracked.req) for tracked in admitted}
            scheduler.waiting_queue = [r for r in scheduler.waiting_queue if id(r) not in leaving]
        self._counts.planning_s.append(self._clock() - started)

    def form(self, adder: Any) -> None:
        """Fill SGLang's ``adder`` with the planned round."""
        scheduler = self._scheduler
        chosen = list(map(self._tracked.__getitem__, self._plan.run))
        if compat.separate_context(scheduler.dllm_config):
            contexts = [tracked for tracked in chosen if tracked.req.is_dllm_prefill()]
            chosen = contexts or chosen
        incoming = [tracked for tracked in chosen if not tracked.started]
        staging = [tracked.req for tracked in chosen if tracked.started]
        lift = compat.lift_budgets(adder)
        # Incoming requests first: SGLang 0.5.20 counts rows that staging ones hold already.
        for tracked in incoming:
            lift()
            tracked.req.init_next_round_input(scheduler.tree_cache)
            adder.add_one_req(
                tracked.req,
                has_chunked_req=True,
                truncation_align_size=scheduler.truncation_align_size,
            )
            if adder.can_run_list and adder.can_run_list[-1] is tracked.req:
                tracked.started = True
            else:
                # It is tried again as if for the first time.
                tracked.req.dllm_initialized = False
                self._counts.fallbacks["not_added"] += 1
        for req in staging:
            lift()
            adder.add_dllm_staging_req(req)

    def _compare(self, plan: Plan) -> None:
        digest = hashlib.blake2b(repr(plan).encode(), digest_size=8).hexdigest()
        found = compat.gather(digest, self._scheduler.tp_cpu_group)
        if len(set(found)) > 1:
            raise RankMismatchError(
                f"DWISE: the ranks planned different rounds at round {self.core.clock.round}: "
                f"{', '.join(found)}"
            )
