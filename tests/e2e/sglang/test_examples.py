"""The examples that need SGLang."""

import os
import re
import signal
import subprocess
import sys

from tests.e2e.sglang.server import ROOT, free_port


def test_the_embedded_model_is_served_and_asked(tmp_path):
    port = str(free_port())
    serve = [sys.executable, str(ROOT / "examples/serve_tiny.py"), "--port", port]
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(
            serve, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        ask = [sys.executable, str(ROOT / "examples/ask_server.py")]
        asked = subprocess.run(
            [*ask, f"http://127.0.0.1:{port}", "24"], capture_output=True, text=True, timeout=400
        )
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
    assert asked.returncode == 0, asked.stderr + (tmp_path / "log").read_text()[-3000:]
    assert asked.stdout.startswith("24 answers, latency mean")
    said = dict(re.findall(r"^(\w+) +(\S+)", asked.stdout, re.MULTILINE))
    assert said["mode"] == "schedule" and said["policy"] == "dwise"
    assert int(said["refinements"]) > 0 and int(said["filled_slots"]) > int(said["rounds"])
