"""The real HTTP server in a process of its own."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path

ROOT = Path(__file__).parents[3]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def flags(arguments):
    """ServerArgs keyword arguments as command-line flags."""
    words = []
    for name, value in arguments.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            words.append(flag)
        elif value not in (False, None):
            words += [flag, str(value)]
    return words


def body(request, **more):
    """What /generate takes, of an EngineRequest."""
    return {
        "rid": request.request_id,
        "input_ids": list(request.prompt_ids),
        "sampling_params": {"temperature": 0, "max_new_tokens": request.budget_tokens},
        **more,
    }


class Server:
    """A server that is up; use as a context manager."""

    def __init__(self, setting, folder, variables=(), command=None, **more):
        self.port = free_port()
        arguments = {**setting.arguments(folder), "port": self.port, **more}
        command = command or [sys.executable, "-m", "sglang.launch_server"]
        self.log = Path(folder) / f"server-{self.port}.log"
        clean = {k: v for k, v in os.environ.items() if not k.startswith("DWISE_")}
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, *flags(arguments)],
                env=clean | dict(variables),
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            self._wait()
        except BaseException:
            self.kill()
            raise

    def _wait(self):
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended: {self.log.read_text()[-3000:]}")
            with contextlib.suppress(OSError):
                if self.get("/health") is not None:
                    return
            time.sleep(0.3)
        raise RuntimeError(f"the server did not come up: {self.log.read_text()[-3000:]}")

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as answer:
            return answer.read().decode()

    def post(self, path, body, timeout=300):
        with self._open(path, body, timeout) as answer:
            return json.loads(answer.read() or "null")

    def _open(self, path, body, timeout):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        return urllib.request.urlopen(request, timeout=timeout)

    def _stream(self, request):
        return self._open("/generate", body(request, stream=True), 3600)

    def generate(self, request, timeout=300, **more):
        """Output ids of one EngineRequest; None when it was aborted or the server went away."""
        try:
            answer = self.post("/generate", body(request, **more), timeout)
        except urllib.error.HTTPError as error:
            return error.code
        except (OSError, HTTPException):
            return None
        if answer["meta_info"]["finish_reason"]["type"] == "abort":
            return None
        return answer["output_ids"]

    def abort(self, request_id):
        self.post("/abort_request", {"rid": request_id})

    def leave_after_first_block(self, request):
        """Ask for a stream and close the connection once something has come."""
        with self._stream(request) as answer:
            answer.readline()

    def first_block_and_end(self, request):
        """Seconds until the first and the last tokens of a streamed answer."""
        started, first = time.perf_counter(), None
        with self._stream(request) as answer:
            for line in answer:
                if line.startswith(b"data: {") and first is None:
                    first = time.perf_counter() - started
        return first, time.perf_counter() - started

    def generate_all(self, queue, threads=128):
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(self.generate, queue))

    def dwise(self):
        """What the schedulers say of the plugin."""
        return [s["dwise"] for s in json.loads(self.get("/server_info"))["internal_states"]]

    def alive(self):
        return self.process.poll() is None

    @contextlib.contextmanager
    def stopped(self):
        """Stop all processes for a while: idle ones would poll for requests."""
        os.killpg(self.process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(self.process.pid, signal.SIGCONT)

    def kill(self):
        """SIGKILL to every process of the server."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.kill()
