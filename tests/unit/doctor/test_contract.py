"""Hooks are checked in sources, without importing an engine."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from dwise_predict.doctor.contract import source_faults
from dwise_predict.sglang.compat import CONTRACT, TESTED

WHEELS = Path(__file__).parents[3] / ".sglang-wheels"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "engine"
    (folder / "core").mkdir(parents=True)
    (folder / "core" / "queue.py").write_text(
        "import no_such_module\n"
        "class Queue:\n"
        "    def push(self, item, /, late=False): ...\n"
        "    async def pop(self): ...\n"
        "    limit = 3\n"
        "def refuse(item, reason): ...\n"
    )
    return folder


def test_what_is_there_is_no_fault(package: Path) -> None:
    contract: dict[str, tuple[str, ...]] = {
        "engine.core.queue.Queue.push": ("self", "item"),
        "engine.core.queue.Queue.pop": ("self",),
        "engine.core.queue.refuse": ("item", "reason"),
    }
    assert source_faults(package, contract) == []


@pytest.mark.parametrize(
    ("name", "parameters", "fault"),
    [
        ("engine.core.queue.Queue.push", ("self", "late"), "takes self, item, late, expected"),
        ("engine.core.queue.Queue.peek", ("self",), "does not exist"),
        ("engine.core.queue.Queue.limit", ("self",), "does not exist"),
        ("engine.core.stack.Stack.push", ("self",), "does not exist"),
        ("engine.core.queue.Stack.push", ("self",), "does not exist"),
        ("engine.core.queue.push", (), "does not exist"),
    ],
)
def test_what_is_not_there_is_named(
    package: Path, name: str, parameters: tuple[str, ...], fault: str
) -> None:
    (found,) = source_faults(package, {name: parameters})
    assert found.startswith(name)
    assert fault in found


@pytest.mark.parametrize("version", TESTED)
def test_the_real_contract_in_the_real_sources(version: str, tmp_path: Path) -> None:
    wheels = sorted(WHEELS.glob(f"sglang-{version}-*.whl"))
    if not wheels:
        pytest.skip(f"the wheel of SGLang {version} is not in {WHEELS}: make sglang-wheels")
    with zipfile.ZipFile(wheels[0]) as archive:
        archive.extractall(
            tmp_path,
            [n for n in archive.namelist() if n.startswith("sglang/srt/") and n.endswith(".py")],
        )
    package = tmp_path / "sglang"
    assert source_faults(package, CONTRACT) == []
    scheduler = package / "srt" / "managers" / "scheduler.py"
    scheduler.write_text(scheduler.read_text().replace("def abort_request(", "def abort_it("))
    assert source_faults(package, CONTRACT) == [
        "sglang.srt.managers.scheduler.Scheduler.abort_request does not exist"
    ]
