"""Every name and signature the plugin relies on, checked in the sources of both releases.

Nothing of SGLang is imported: the wheels are read as archives (``make sglang-wheels``).
"""

import ast
import zipfile
from pathlib import Path

import pytest

from dwise_predict.sglang import compat

WHEELS = Path(__file__).parents[3] / ".sglang-wheels"

# Attributes that compat.py and the hooks read or write, by the file that must mention them.
ATTRIBUTES = {
    "0.5.20": {
        "managers/schedule_policy.py": (
            "self.rem_total_token_offset =",
            "self.cur_rem_token_offset =",
        ),
        "managers/schedule_batch.py": ("self.prefix_indices",),
    },
    "0.5.23": {
        "mem_cache/prefill_budget.py": ("self.total_offset =", "self.current_offset ="),
        "managers/schedule_policy.py": ("self.memory_budget",),
        "managers/schedule_batch.py": ("self.prefix_len",),
        "dllm/config.py": ("self.requires_separate_context_encoding =",),
    },
    "both": {
        "managers/schedule_policy.py": (
            "self.rem_input_tokens =",
            "self.rem_chunk_tokens =",
            "self.can_run_list =",
        ),
        "managers/schedule_batch.py": (
            "def holds_kv",
            "def is_kv_released",
            "req_pool_idx",
            "self.origin_input_ids =",
            "self.output_ids =",
            "self.finished_reason",
            "def output_ids_through_stop",
            "self.dllm_initialized",
            "self.prefix_lens =",
            "self.extend_lens =",
        ),
        "managers/scheduler.py": (
            "self.waiting_queue",
            "self.output_streamer",
            "self.truncation_align_size",
            "self.max_total_num_tokens",
            "self.tp_cpu_group",
            "self.enable_priority_scheduling =",
            "self.schedule_low_priority_values_first =",
            "self.metrics_reporter",
        ),
        "managers/utils.py": ("accept_length_per_req_cpu",),
        "dllm/mixin/scheduler.py": ("self.dllm_manager =", "self.waiting_queue.extend"),
        "dllm/config.py": ("self.max_running_requests =", "self.first_done_first_out_mode ="),
        "runtime_context.py": ("def get_parallel", "def get_exec"),
        "arg_groups/fields/exec_.py": ("cuda_graph_max_bs_decode", "dllm_fdfo"),
        "arg_groups/fields/schedule.py": ("max_running_requests",),
    },
}


class Wheel:
    def __init__(self, version):
        found = sorted(WHEELS.glob(f"sglang-{version}-*.whl"))
        if not found:
            pytest.skip(f"the wheel of SGLang {version} is not in {WHEELS}: make sglang-wheels")
        self.archive = zipfile.ZipFile(found[0])
        self.names = set(self.archive.namelist())
        self.trees = {}

    def text(self, path):
        return self.archive.read(path).decode()

    def find(self, name):
        """The definition that a dotted name points to, or None."""
        parts = name.split(".")
        for cut in range(len(parts) - 1, 0, -1):
            path = "/".join(parts[:cut]) + ".py"
            if path not in self.names:
                continue
            if path not in self.trees:
                self.trees[path] = ast.parse(self.text(path))
            node = self.trees[path]
            for part in parts[cut:]:
                definitions = [
                    child
                    for child in node.body
                    if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
                    and child.name == part
                ]
                if not definitions:
                    return None
                node = definitions[-1]
            return node
        return None


@pytest.fixture(scope="module", params=compat.TESTED)
def wheel(request):
    wheel = Wheel(request.param)
    wheel.version = request.param
    return wheel


def test_names_and_signatures(wheel):
    for name, expected in compat.CONTRACT.items():
        definition = wheel.find(name)
        assert isinstance(definition, ast.FunctionDef), f"{name} is gone in {wheel.version}"
        arguments = definition.args
        found = tuple(a.arg for a in [*arguments.posonlyargs, *arguments.args])
        assert found[: len(expected)] == expected, (name, wheel.version)
        # What the plugin does not pass must have a default.
        required = len(found) - len(arguments.defaults)
        assert required <= len(expected) or name == compat.INIT, (name, wheel.version)


def test_attributes(wheel):
    for which in (wheel.version, "both"):
        for path, wanted in ATTRIBUTES[which].items():
            text = wheel.text(f"sglang/srt/{path}")
            missing = [snippet for snippet in wanted if snippet not in text]
            assert not missing, (wheel.version, path)


def test_entry_point_is_loaded_before_arguments_are_resolved(wheel):
    text = wheel.text("sglang/launch_server.py")
    assert text.index("load_plugins()") < text.index("prepare_server_args(sys.argv")
    assert "load_plugins()" in wheel.text("sglang/srt/entrypoints/engine.py")
    assert "load_plugins()" in wheel.text("sglang/srt/managers/scheduler.py")
    group = 'GENERAL_PLUGINS_GROUP = "sglang.srt.plugins"'
    assert group in wheel.text("sglang/srt/plugins/__init__.py")


def test_a_missing_name_is_found(wheel):
    assert wheel.find("sglang.srt.managers.scheduler.Scheduler.no_such_method") is None
    assert wheel.find("sglang.srt.no_such_module.function") is None
