from __future__ import annotations

import json
import random
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dwise_predict.errors import ResultsError
from dwise_predict.results import (
    Conditions,
    Results,
    read_results,
    requests_table,
    summarise,
    write_results,
)
from dwise_predict.results.store import remove_results
from tests.results import facts, rounds_table


def results(n: int = 2) -> Results:
    times = {name: [1.0] * n for name in ("admitted_s", "first_round_s", "first_block_s")}
    times |= {"arrival_s": [0.0] * n, "finished_s": [2.0] * n}
    requests = requests_table(facts(["chat"] * n), times, {})
    rounds = rounds_table([1.0, 2.0], [1, 2], [1, 0])
    conditions = Conditions("fcfs", "prefill_first", "torch", "burst", 2, 0, 0)
    return Results(requests, rounds, summarise(requests, rounds, conditions))


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    written = results()
    write_results(tmp_path / "deep" / "fcfs", written)
    assert sorted(path.name for path in (tmp_path / "deep" / "fcfs").iterdir()) == [
        "requests.parquet", "rounds.parquet", "summary.json",
    ]  # fmt: skip
    read = read_results(tmp_path / "deep" / "fcfs")
    assert read.requests.equals(written.requests)
    assert read.rounds.equals(written.rounds)
    assert read.summary == written.summary


def test_the_same_results_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_results(tmp_path / name, results())
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_earlier_results_are_replaced(tmp_path: Path) -> None:
    write_results(tmp_path / "run", results(2))
    write_results(tmp_path / "run", results(3))
    assert read_results(tmp_path / "run").summary.n == 3
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_results_survive_a_kill_at_any_moment(tmp_path: Path) -> None:
    folder, old = tmp_path / "run", tmp_path / ".run.old"
    write_results(folder, results(2))
    writer = textwrap.dedent(f"""
        from pathlib import Path
        from dwise_predict.results import read_results, write_results
        results = read_results({str(folder)!r})
        print("ready", flush=True)
        while True:
            write_results(Path({str(folder)!r}), results)
    """)
    rng = random.Random(0)
    for _ in range(6):
        with subprocess.Popen(
            [sys.executable, "-c", writer], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            time.sleep(rng.uniform(0, 0.05))
            process.kill()
        # Between two renames only what was moved aside is there.
        assert read_results(folder if folder.exists() else old).summary.n == 2
        write_results(folder, results(2))
        assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_results_moved_aside_are_put_back_before_new_ones_are_written(tmp_path: Path) -> None:
    folder, old, new = (tmp_path / name for name in ("run", ".run.old", ".run.new"))
    write_results(old, results(2))
    new.write_text("in the way")
    with pytest.raises(ResultsError, match="cannot write the results"):
        write_results(folder, results(3))
    assert read_results(folder).summary.n == 2
    new.unlink()
    write_results(folder, results(3))
    assert read_results(folder).summary.n == 3
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_removing_takes_what_a_killed_writer_left(tmp_path: Path) -> None:
    for name in ("run", ".run.old", ".run.new"):
        write_results(tmp_path / name, results())
    remove_results(tmp_path / "run")
    remove_results(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ResultsError, match=r"holds notes.txt"):
        remove_results(tmp_path)


def test_anything_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ResultsError, match=r"holds notes.txt, so it is no results folder"):
        write_results(tmp_path, results())
    with pytest.raises(ResultsError, match=r"notes.txt is a file"):
        write_results(tmp_path / "notes.txt", results())
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError, match=r"cannot write the results .*file/run"):
        write_results(tmp_path / "file" / "run", results())


@pytest.mark.parametrize("name", ["requests.parquet", "rounds.parquet", "summary.json"])
def test_a_missing_or_damaged_file_is_named(tmp_path: Path, name: str) -> None:
    write_results(tmp_path / "run", results())
    path = tmp_path / "run" / name
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ResultsError, match=f"{name} .*damaged"):
        read_results(tmp_path / "run")
    path.unlink()
    with pytest.raises(ResultsError, match=rf"cannot read .*{name}: No such file"):
        read_results(tmp_path / "run")


def test_a_table_of_something_else_is_refused(tmp_path: Path) -> None:
    write_results(tmp_path / "run", results())
    pq.write_table(pa.table({"slots": [1]}), tmp_path / "run" / "rounds.parquet")
    with pytest.raises(ResultsError, match="differs in the columns index, kv_tokens"):
        read_results(tmp_path / "run")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n": 7}, "says 7 requests, but requests.parquet holds 2"),
        ({"rounds": 9}, "says 9 rounds, but rounds.parquet holds 2"),
        ({"idle": 0.5}, "unknown key 'idle'"),
        ({"throughput_rps": "fast"}, "'throughput_rps' is 'fast'"),
        ({"reached_zero": None}, "'reached_zero' is None"),
    ],
)
def test_a_summary_that_does_not_fit_is_refused(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    write_results(tmp_path / "run", results())
    path = tmp_path / "run" / "summary.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ResultsError, match=message):
        read_results(tmp_path / "run")
