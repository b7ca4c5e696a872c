"""The real SGLang scheduler in the test's own process, stepped round by round."""

import inspect
import types
from array import array
from dataclasses import dataclass, field
from pathlib import Path

import yaml


@dataclass
class Setting:
    """How an engine is started; the defaults are the embedded model's."""

    model: Path
    algorithm: str = "LowConfidence"
    parameters: dict = field(default_factory=lambda: {"threshold": 0.9})
    block_size: int = 16
    slots: int = 8
    fdfo: bool = True
    radix: bool = False
    kv_tokens: int = 8192
    dtype: str = "float32"
    more: dict = field(default_factory=dict)

    def arguments(self, folder):
        """Keyword arguments of ServerArgs; ``folder`` takes the algorithm's configuration."""
        config = Path(folder) / "algorithm.yaml"
        config.write_text(yaml.safe_dump({**self.parameters, "block_size": self.block_size}))
        return {
            "model_path": str(self.model),
            "device": "cpu",
            "dtype": self.dtype,
            "attention_backend": "torch_native",
            "dllm_algorithm": self.algorithm,
            "dllm_algorithm_config": str(config),
            "dllm_fdfo": self.fdfo,
            "max_running_requests": self.slots,
            "max_total_tokens": self.kv_tokens,
            "context_length": 2048,
            "disable_radix_cache": not self.radix,
            "trust_remote_code": True,
            "log_level": "warning",
            "random_seed": 0,
            **self.more,
        }


class Engine:
    """One scheduler at a time per process."""

    def __init__(self, setting, folder, eos_ids=(0,)):
        from sglang.srt.managers.scheduler import Scheduler
        from sglang.srt.plugins import load_plugins
        from sglang.srt.runtime_context import publish
        from sglang.srt.server_args import PortArgs, ServerArgs

        load_plugins()
        self.setting = setting
        self.eos_ids = set(eos_ids)
        args = ServerArgs(**setting.arguments(folder))
        args.resolve_once()
        args.check_server_args()
        if "gpu_id" in inspect.signature(Scheduler.__init__).parameters:
            publish(args, role="scheduler")
            ranks = dict.fromkeys(
                ("gpu_id", "tp_rank", "moe_ep_rank", "pp_rank", "attn_cp_rank", "moe_dp_rank"), 0
            )
            self.scheduler = Scheduler(args, PortArgs.init_new(args), dp_rank=None, **ranks)
        else:
            from sglang.srt.runtime_context import SpawnRanks

            ranks = SpawnRanks(world_rank=0, dp_rank=None, gpu_id=0)
            publish(args, role="scheduler", ranks=ranks)
            self.scheduler = Scheduler(args, PortArgs.init_new(args))
        self.args = args
        # Nobody listens at the other end of these sockets.
        self.scheduler.output_streamer.send_to_detokenizer = types.SimpleNamespace(
            send_output=lambda *_, **__: None
        )
        self.scheduler.ipc_channels.send_to_tokenizer.send_output = lambda *_, **__: None
        self.requests = {}

    def submit(self, request_id, ids, budget=256, ignore_eos=False, priority=None):
        from sglang.srt.managers.schedule_batch import Req
        from sglang.srt.sampling.sampling_params import SamplingParams

        parameters = SamplingParams(temperature=0, max_new_tokens=budget, ignore_eos=ignore_eos)
        parameters.normalize(None)
        request = Req(
            request_id,
            "",
            array("q", ids),
            parameters,
            eos_token_ids=self.eos_ids,
            vocab_size=self.scheduler.model_config.vocab_size,
            dllm_config=self.scheduler.dllm_config,
            priority=priority,
        )
        request.tokenizer = self.scheduler.tokenizer
        self.scheduler.init_req_max_new_tokens(request)
        self.scheduler._add_request_to_queue(request)
        self.requests[request_id] = request
        return request

    def abort(self, request_id):
        from sglang.srt.managers.io_struct import AbortReq

        self.scheduler.abort_request(AbortReq(rid=request_id))

    def internal_state(self):
        """What /server_info says of the scheduler."""
        from sglang.srt.managers.io_struct import GetInternalStateReq

        return self.scheduler.get_internal_state(GetInternalStateReq()).internal_state

    def step(self):
        """One turn of the scheduler's event loop without receiving; returns the batch or None."""
        scheduler = self.scheduler
        plan = scheduler.get_next_batch_to_run(
            running_batch=scheduler.running_batch, last_batch=scheduler.last_batch
        )
        scheduler.running_batch = plan.running_batch
        batch = plan.batch_to_run
        if batch:
            scheduler.process_batch_result(batch, scheduler.run_batch(batch))
        scheduler.last_batch = batch
        return batch

    def run(self, limit=20_000):
        """Step until every request has finished; returns the rounds."""
        rounds = turns = 0
        while not all(request.finished() for request in self.requests.values()):
            rounds, turns = rounds + (self.step() is not None), turns + 1
            assert turns < limit, "requests are stuck"
        return rounds

    def output(self, request_id):
        """The answer as clients get it: up to EOS and the budget."""
        request = self.requests[request_id]
        ids = list(request.output_ids)[: request.sampling_params.max_new_tokens]
        if not request.sampling_params.ignore_eos:
            ends = [i for i, token in enumerate(ids) if token in self.eos_ids]
            ids = ids[: ends[0] + 1] if ends else ids
        return ids

    def assert_drained(self):
        """No KV and no request row is held once everything has finished."""
        for _ in range(3):
            assert self.step() is None
        # SGLang's own strict check: free and cached KV must be all there is.
        self.scheduler.on_idle()
        pool = self.scheduler.req_to_token_pool
        assert pool.available_size() == pool.size


def shut_down():
    """End what an engine of this process, complete or not, holds in SGLang's globals."""
    from sglang.srt.distributed import destroy_distributed_environment, destroy_model_parallel
    from sglang.srt.eplb.expert_location import set_global_expert_location_metadata

    destroy_model_parallel()
    destroy_distributed_environment()
    set_global_expert_location_metadata(None, allow_overwrite=True)
