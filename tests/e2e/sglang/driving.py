"""The command line on tiny random checkpoints that stand in for a recipe's own."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from dwise_predict.recording import recorded_requests
from tests.e2e.sglang.checkpoints import write_checkpoint
from tests.e2e.sglang.server import free_port
from tests.runs import write_prompts

DWISE = str(Path(sys.executable).with_name("dwise"))
SLOTS = 8
_CHAT = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "assistant:"
)


@dataclass
class Campaign:
    """A checkpoint, prompts, and the flags with which a recipe takes them."""

    recipe: str
    folder: Path
    budget: int = 24
    requests: int = 72
    settings: tuple = ()
    variables: dict = field(default_factory=dict)

    @property
    def checkpoint(self):
        return self.folder / "checkpoint"

    def write(self, architecture, certainty):
        write_checkpoint(self.checkpoint, architecture, certainty=certainty)
        return self.complete()

    def complete(self):
        """Add what a checkpoint folder needs for chats, and the prompts."""
        (self.checkpoint / "chat_template.jinja").write_text(_CHAT)
        write_prompts(self.folder / "prompts.jsonl", self.requests)
        return self

    @property
    def overrides(self):
        """The recipe on a CPU; decoding is its own."""
        settings = (
            f"model.repo={self.checkpoint}",
            f"engine.slots={SLOTS}",
            "engine.device=cpu",
            "engine.dtype=float32",
            "engine.sglang.attention_backend=torch_native",
            "engine.sglang.kv_pool_gib=0.5",
            f"decoding.budget_tokens={self.budget}",
            "predictors.refiner.width=32",
            "predictors.refiner.epochs=5",
            *self.settings,
        )
        return [word for setting in settings for word in ("--set", setting)]

    @property
    def flags(self):
        return ["--model", self.recipe, "--workload", "prompts.jsonl", *self.overrides]

    @property
    def environment(self):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("DWISE_")}
        return clean | self.variables

    def start(self, *words, **more):
        return subprocess.Popen(
            [DWISE, *map(str, words)],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **more,
        )

    def dwise(self, *words):
        """Run a command; returns what it wrote to both streams. It must succeed."""
        process = self.start(*words)
        stdout, stderr = process.communicate(timeout=600)
        assert process.returncode == 0, stderr
        return stdout + stderr


class RecordingServer:
    """``dwise profile serve`` of a campaign's recipe; can be killed and started again."""

    def __init__(self, campaign, name, *flags):
        self.campaign = campaign
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.recording = campaign.folder / f"recording-{name}"
        self.log = campaign.folder / f"{name}.log"
        self.process = None
        self.flags = flags

    def start(self):
        """Start the process; use :meth:`wait` before it is needed."""
        command = [DWISE, "profile", "serve", "--model", self.campaign.recipe]
        place = ["--recording", str(self.recording), "--port", str(self.port)]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [*command, *self.campaign.overrides, *place, *self.flags],
                cwd=self.campaign.folder,
                env=self.campaign.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self

    def wait(self):
        deadline = time.monotonic() + 240
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            with (
                contextlib.suppress(OSError),
                urllib.request.urlopen(f"{self.url}/health", timeout=30),
            ):
                return self
            time.sleep(0.2)
        raise AssertionError(f"the server did not come up: {self.log.read_text()[-3000:]}")

    def recorded(self):
        """Ids of recorded requests, without those that SGLang sends to itself when it starts."""
        if not (self.recording / "recording.json").exists():
            return []
        return [i for i in recorded_requests(self.recording) if i.startswith("line-")]

    @contextlib.contextmanager
    def stopped(self):
        """Stop all its processes for a while."""
        os.killpg(self.process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(self.process.pid, signal.SIGCONT)

    def kill(self):
        """SIGKILL to every process of it."""
        if self.process is not None and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            # Its children may die, and record, a moment later than itself.
            until = time.monotonic() + 60
            while members(self.process.pid):
                assert time.monotonic() < until
                time.sleep(0.02)


def members(group):
    """Processes of a process group that still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, its_group = path.read_text().rpartition(")")[2].split()[:3]
            if int(its_group) == group and state not in "ZX":
                found.append(int(path.parent.name))
    return found
