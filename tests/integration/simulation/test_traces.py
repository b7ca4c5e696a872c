from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from dwise_predict.errors import SimulationError
from dwise_predict.simulation.limits import MAX_REQUESTS
from dwise_predict.simulation.sources import read_trace, synthetic_source, trace_source

SHARED = Path(__file__).parents[3].parent / "shared" / "data" / "traces"
HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


def mooncake(timestamp: object, length: object) -> str:
    return f'{{"timestamp": {timestamp}, "input_length": {length}, "hash_ids": [1]}}\n'


def test_mooncake(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(mooncake(3000, 5) + "\n" + mooncake(1000, 7) + mooncake(1500, 9))
    trace = read_trace(path)
    assert trace.name == "trace.jsonl"
    assert trace.arrival_s.tolist() == [0.0, 0.5, 2.0]
    assert trace.prompt_tokens.tolist() == [7, 9, 5]


def test_azure(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(
        "\ufeff" + HEADER + "2023-11-16 18:17:03.9799600,4808,10\n"
        "2023-11-16 18:17:04.0319600,3180,8\n2023-11-16 18:17:05.9799600+00:00,110,27\n"
    )
    trace = read_trace(path)
    assert trace.arrival_s == pytest.approx([0.0, 0.052, 2.0], abs=1e-6)
    assert trace.prompt_tokens.tolist() == [4808, 3180, 110]


def test_the_first_requests_alone(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(mooncake(0, 1) + mooncake(5, 2) + "not read\n")
    assert read_trace(path, limit=2).prompt_tokens.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.jsonl", mooncake(0, 1) + "{oops\n", r"t.jsonl:2: .*Mooncake trace has timestamp"),
        ("t.jsonl", '{"timestamp": 1}\n', r"t.jsonl:1: key 'input_length' is missing"),
        ("t.jsonl", "\n" + mooncake(1, 0), r"t.jsonl:2: key 'input_length' is 0, but"),
        ("t.jsonl", mooncake(-1, 3), r"t.jsonl:1: key 'timestamp' is -1"),
        ("t.jsonl", mooncake('"x"', 3), r"t.jsonl:1: key 'timestamp' is 'x'"),
        ("t.jsonl", "\n", r"t.jsonl holds no request"),
        ("t.csv", "a,b\n1,2\n", r"t.csv:1: the column TIMESTAMP and ContextTokens is missing"),
        ("t.csv", "", r"t.csv:1: the column"),
        ("t.csv", HEADER, r"t.csv holds no request"),
        ("t.csv", HEADER + "yesterday,5,1\n", r"t.csv:2: TIMESTAMP is 'yesterday', expected"),
        ("t.csv", HEADER + ",5,1\n", r"t.csv:2: TIMESTAMP is '', expected"),
        ("t.csv", HEADER + "2023-11-16 18:17:03,5\n2023-11-16,x,1\n", r"t.csv:3: ContextTokens"),
        ("t.csv", HEADER + "2023-11-16 18:17:03\n", r"t.csv:2: ContextTokens is None, expected"),
        ("t.csv", HEADER + "2023-11-16 18:17:03,0,1\n", r"t.csv:2: ContextTokens is '0'"),
        ("t.jsonl", mooncake("true", 3), r"t.jsonl:1: key 'timestamp' is True"),
        ("t.jsonl", mooncake(0, 1) + mooncake(1e13, 1), r"t.jsonl: the last request arrives 1e"),
        ("t.csv", HEADER + "2023-11-16," + "9" * 5000 + ",1\n", r"t.csv:2: ContextTokens is '99"),
        ("t.csv", HEADER + '2023-11-16,"' + "x" * 140_000 + '"\n', r"t.csv is no CSV file: field"),
        ("t.csv", HEADER + "1600-11-16 18:17:03,5,1\n", r"t.csv:2: TIMESTAMP is '1600-"),
        ("t.csv", HEADER + "9999-11-16 18:17:03,5,1\n", r"t.csv:2: TIMESTAMP is '9999-"),
        ("t.csv", HEADER + "2023-02-31 18:17:03,5,1\n", r"t.csv:2: TIMESTAMP is '2023-02-31"),
        ("t.csv", HEADER + "now,5,1\n", r"t.csv:2: TIMESTAMP is 'now', expected a time in UTC"),
        ("t.csv", HEADER + "5,5,1\n", r"t.csv:2: TIMESTAMP is '5', expected a time in UTC"),
        ("t.csv", HEADER + "2023-11-16 18:17:03+02:00,5,1\n", r"t.csv:2: TIMESTAMP is '2023-"),
        ("t.csv", HEADER + "2023-11-16,5,1\n2063-11-16,5,1\n", r"t.csv: the last request arrives"),
        ("t.txt", "", r"t.txt: a trace is a .jsonl file \(Mooncake\) or a .csv file \(Azure\)"),
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(SimulationError, match=message):
        read_trace(tmp_path / name)


def test_files_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"\xff\xfe\x00" * 20)
    with pytest.raises(SimulationError, match=r"t.csv is no text in UTF-8"):
        read_trace(tmp_path / "t.csv")
    with pytest.raises(SimulationError, match=r"cannot read the trace .*: No such file"):
        read_trace(tmp_path / "absent.csv")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "t.csv")
    with pytest.raises(SimulationError, match=r"t.csv is no file that can be read to its end"):
        read_trace(tmp_path / "t.csv")


def test_traces_longer_than_can_be_simulated_need_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(mooncake(0, 1) * (MAX_REQUESTS + 1))
    with pytest.raises(SimulationError, match=r"more than 1,000,000 requests; .* --limit"):
        read_trace(path)
    assert len(read_trace(path, limit=3).arrival_s) == 3


def test_rounds_are_drawn_by_seed_and_prompts_are_the_traces(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(mooncake(10 * i, 100 + 7 * i) for i in range(300)))
    trace, drawn_from = read_trace(path), synthetic_source(40, 0)
    once, again, other = (trace_source(trace, drawn_from, seed) for seed in (1, 1, 2))
    assert once.facts.equals(again.facts) and not once.facts.equals(other.facts)
    workload = once.workload()
    assert workload.prompt_tokens.tolist() == trace.prompt_tokens.tolist()
    assert workload.prompt_blocks.tolist() == [(100 + 7 * i) // 32 for i in range(300)]
    assert set(workload.rounds_per_block) <= set(drawn_from.workload().rounds_per_block)
    assert len(set(workload.rounds_per_block)) > 20
    assert once.arrival_s is not None and once.arrival_s[-1] == pytest.approx(2.99)
    assert once.facts["words"].null_count == 300
    assert once.facts["first_block_masked"].to_pylist()[:2] == [28, 21]


@pytest.mark.skipif(not SHARED.is_dir(), reason="the public traces are not on this machine")
def test_the_public_traces() -> None:
    azure = read_trace(SHARED / "AzureLLMInferenceTrace_code.csv")
    assert len(azure.arrival_s) == 8819
    assert azure.arrival_s[-1] == pytest.approx(3435.948, abs=1e-3)
    mooncake = read_trace(SHARED / "mooncake_synthetic_trace.jsonl")
    assert len(mooncake.arrival_s) == 3993
    assert (np.diff(mooncake.arrival_s) >= 0).all()
