from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dwise_predict.errors import ProfileError
from dwise_predict.fingerprint import Fingerprint
from dwise_predict.profile import (
    REQUESTS_SCHEMA,
    ROUNDS_SCHEMA,
    Campaign,
    ProfileWriter,
    Records,
    WorkloadId,
    open_profile,
    read_profile,
)
from dwise_predict.recipe import EngineSettings

HIDDEN = 8


def campaign(requests: int = 5, shard_requests: int = 2, seed: int = 0) -> Campaign:
    return Campaign(
        fingerprint=Fingerprint(
            model="local:m",
            revision="r",
            architecture="SDARForCausalLM",
            hidden_size=HIDDEN,
            algorithm="LowConfidence",
            algorithm_parameters={"threshold": 0.9},
            block_size=4,
            fdfo=True,
            budget_tokens=16,
            engine="torch",
            engine_version="1",
            dtype="float32",
        ),
        workload=WorkloadId(name="builtin", sha256="w", requests=requests),
        seed=seed,
        engine=EngineSettings(slots=4, device="cpu", threads=1),
        shard_requests=shard_requests,
        library_version="1",
        started_at=datetime(2026, 1, 1, tzinfo=timezone.utc),
    )


def records(campaign: Campaign, shard: int) -> Records:
    rows = [
        {
            "request_id": f"r{i}",
            "category": "chat",
            "dataset": "own",
            "split": ("train", "eval", None)[i % 3],
            "prompt_sha256": f"{i:064x}",
            "words": i,
            "newlines": 0,
            "prompt_tokens": 9,
            "prompt_blocks": 2,
            "budget_tokens": 16,
            "output_tokens": 5,
            "output_blocks": 2,
            "rounds": 4 + i,
            "rounds_per_block": [3, 1 + i],
            "first_block_masked": 3,
            "finish_reason": "eos",
            "answer_correct": (True, False, None)[i % 3],
            "arrival_s": 0.0,
            "admitted_s": 0.1,
            "first_round_s": 0.2,
            "first_block_s": None if i == 1 else 0.3,
            "finished_s": 0.4,
            "shard": shard,
        }
        for i in campaign.shard_rows(shard)
    ]
    rounds = [
        {
            "shard": shard,
            "index": index,
            "start_s": float(index),
            "wall_ms": 1.5,
            "slots": 2,
            "prefill_slots": 0,
            "kv_tokens": 8,
            "residents": 2,
            "waiting": 0,
        }
        for index in range(3)
    ]
    hidden = np.random.default_rng(shard).standard_normal((len(rows), HIDDEN))
    return Records(
        requests=pa.Table.from_pylist(rows, schema=REQUESTS_SCHEMA),
        rounds=pa.Table.from_pylist(rounds, schema=ROUNDS_SCHEMA),
        hidden=hidden.astype(np.float16),
    )


def write_missing(writer: ProfileWriter) -> None:
    for shard in writer.missing():
        writer.write_shard(shard, records(writer.campaign, shard))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "profile"


@pytest.fixture
def finished(folder: Path) -> Path:
    with open_profile(folder, campaign()) as writer:
        write_missing(writer)
        writer.finish()
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}


def test_round_trip(finished: Path) -> None:
    profile = read_profile(finished)
    parts = [records(campaign(), shard) for shard in range(3)]
    assert profile.requests.equals(pa.concat_tables([part.requests for part in parts]))
    assert profile.rounds.equals(pa.concat_tables([part.rounds for part in parts]))
    assert profile.hidden.dtype == np.float16
    assert np.array_equal(profile.hidden, np.concatenate([part.hidden for part in parts]))
    assert profile.run.counts.model_dump() == {"requests": 5, "rounds": 9}
    assert profile.run.fingerprint == campaign().fingerprint
    assert profile.run.started_at == campaign().started_at <= profile.run.finished_at
    assert sorted(p.name for p in finished.iterdir()) == [
        "first_round.safetensors",
        "requests.parquet",
        "rounds.parquet",
        "run.json",
    ]


def test_continues_where_it_stopped(folder: Path, finished: Path, tmp_path: Path) -> None:
    other = tmp_path / "interrupted"
    with open_profile(other, campaign()) as writer:
        writer.write_shard(1, records(writer.campaign, 1))
    with pytest.raises(ProfileError, match="unfinished: run again with --resume"):
        read_profile(other)
    with open_profile(other, campaign()) as writer:
        assert writer.missing() == [0, 2]
        write_missing(writer)
        writer.finish()
    for name in ("requests.parquet", "rounds.parquet", "first_round.safetensors"):
        assert (other / name).read_bytes() == (finished / name).read_bytes()


def test_a_crash_in_the_middle_of_a_shard_or_of_the_merge_leaves_no_half(folder: Path) -> None:
    with open_profile(folder, campaign()) as writer:
        writer.write_shard(0, records(writer.campaign, 0))
    # What a crash leaves: a shard under its temporary name, and merged files without run.json.
    shutil.copytree(folder / "shards" / "shard-00000", folder / "shards" / ".shard-00001.tmp")
    (folder / "requests.parquet").write_bytes(b"half")
    with open_profile(folder, campaign()) as writer:
        assert writer.missing() == [1, 2]
        write_missing(writer)
        writer.finish()
    assert read_profile(folder).requests["request_id"].to_pylist() == [f"r{i}" for i in range(5)]
    assert not (folder / "shards").exists()


class Crash(BaseException):
    """The process dies; nothing may catch this."""


def crash_at(monkeypatch: pytest.MonkeyPatch, step: int) -> list[int]:
    """Die before the ``step``-th operation that makes something durable; counts them."""
    count = [0]

    def counted(operation: Callable[..., None]) -> Callable[..., None]:
        def run(*args: object) -> None:
            count[0] += 1
            if count[0] == step:
                raise Crash
            operation(*args)

        return run

    # Waiting for the disk thousands of times would only make the test slow.
    monkeypatch.setattr(os, "fsync", counted(lambda descriptor: None))
    for name in ("replace", "rename"):
        monkeypatch.setattr(os, name, counted(getattr(os, name)))
    return count


def profile_with_crash(folder: Path, step: int) -> int:
    with pytest.MonkeyPatch.context() as monkeypatch:
        count = crash_at(monkeypatch, step)
        with suppress(Crash), open_profile(folder, campaign()) as writer:
            write_missing(writer)
            writer.finish()
        return count[0]


def test_crashing_before_any_step_that_reaches_the_disk_loses_nothing(
    finished: Path, tmp_path: Path
) -> None:
    steps = profile_with_crash(tmp_path / "whole", step=0)
    assert steps > 50
    for step in range(1, steps + 1):
        folder = tmp_path / str(step)
        assert profile_with_crash(folder, step) == step
        profile_with_crash(folder, step=0)
        profile = read_profile(folder)
        assert profile.run.counts.requests == 5
        assert profile.run.files == read_profile(finished).run.files
        assert not (folder / "shards").exists()


def test_a_crash_after_the_merge_is_tidied_up(finished: Path) -> None:
    (finished / "shards").mkdir()
    before = contents(finished)
    with open_profile(finished, campaign()) as writer:
        assert writer.missing() == []
        writer.finish()
    assert not (finished / "shards").exists()
    assert contents(finished) == before


@pytest.mark.parametrize(
    "name", ["requests.parquet", "rounds.parquet", "first_round.safetensors", "shard.json"]
)
def test_a_corrupted_shard_is_named_and_can_be_served_again(folder: Path, name: str) -> None:
    with open_profile(folder, campaign()) as writer:
        write_missing(writer)
    shard = folder / "shards" / "shard-00001"
    damage(shard / name)
    message = f"{shard}.*delete the folder {shard} and run again"
    with pytest.raises(ProfileError, match=message), open_profile(folder, campaign()):
        pass
    shutil.rmtree(shard)
    with open_profile(folder, campaign()) as writer:
        assert writer.missing() == [1]
        write_missing(writer)
        writer.finish()
    assert read_profile(folder).run.counts.requests == 5


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x20
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["requests.parquet", "rounds.parquet", "first_round.safetensors"])
def test_every_flipped_byte_of_a_finished_profile_is_noticed(finished: Path, name: str) -> None:
    original = (finished / name).read_bytes()
    for position in range(0, len(original), max(1, len(original) // 40)):
        changed = bytearray(original)
        changed[position] ^= 1
        (finished / name).write_bytes(changed)
        with pytest.raises(ProfileError, match=f"{name} is corrupted"):
            read_profile(finished)
    (finished / name).write_bytes(original[:-1])
    with pytest.raises(ProfileError, match=f"{name} is corrupted"):
        read_profile(finished)
    (finished / name).unlink()
    with pytest.raises(ProfileError, match=f"cannot read .*{name}"):
        read_profile(finished)


def test_another_version_is_refused(finished: Path) -> None:
    path = finished / "run.json"
    path.write_text(path.read_text().replace('"format_version": 1', '"format_version": 2'))
    with pytest.raises(ProfileError, match=r"run\.json is damaged or of another version"):
        read_profile(finished)


def test_a_folder_of_something_else_is_refused(folder: Path) -> None:
    folder.mkdir(parents=True)
    with pytest.raises(ProfileError, match="no profile folder"):
        read_profile(folder)
    (folder / "thesis.tex").write_text("years of work")
    with pytest.raises(ProfileError, match=r"holds thesis\.tex"), open_profile(folder, campaign()):
        pass


def test_shards_of_an_unknown_campaign_are_not_taken_over(folder: Path) -> None:
    with open_profile(folder, campaign()) as writer:
        writer.write_shard(0, records(writer.campaign, 0))
    (folder / "shards" / "campaign.json").unlink()
    message = rf"campaign\.json is missing.*delete the folder {folder} and run again"
    with pytest.raises(ProfileError, match=message), open_profile(folder, campaign(seed=1)):
        pass
    shutil.rmtree(folder)
    with open_profile(folder, campaign(seed=1)) as writer:
        assert writer.missing() == [0, 1, 2]


def test_a_profile_without_its_run_file_is_said_to_be_damaged(finished: Path) -> None:
    (finished / "run.json").unlink()
    message = rf"run\.json is missing; delete the folder {finished} and run again"
    with pytest.raises(ProfileError, match=message), open_profile(finished, campaign()):
        pass


@pytest.mark.parametrize("complete", [False, True])
def test_another_campaign_is_refused_with_the_differences(folder: Path, complete: bool) -> None:
    with open_profile(folder, campaign()) as writer:
        write_missing(writer)
        if complete:
            writer.finish()
    with (
        pytest.raises(ProfileError, match="seed: 0 -> 1; shard_requests: 2 -> 3"),
        open_profile(folder, campaign(seed=1, shard_requests=3)),
    ):
        pass


def test_an_unwritable_place_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with (
        pytest.raises(ProfileError, match=f"cannot write the profile at {file}/profile"),
        open_profile(file / "profile", campaign()),
    ):
        pass


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Writing beyond ``size`` fails with an OSError, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_keeps_finished_shards(folder: Path) -> None:
    with open_profile(folder, campaign()) as writer:
        writer.write_shard(0, records(writer.campaign, 0))
        with (
            file_size_limit(500),
            pytest.raises(ProfileError, match=r"shard-00001: .*; 1 of 3 shards are finished"),
        ):
            writer.write_shard(1, records(writer.campaign, 1))
    with open_profile(folder, campaign()) as writer:
        assert writer.missing() == [1, 2]
        write_missing(writer)
        with file_size_limit(500), pytest.raises(ProfileError, match="3 of 3 shards are finished"):
            writer.finish()
        writer.finish()
    assert read_profile(folder).run.counts.requests == 5


def test_two_processes_do_not_write_the_same_profile(folder: Path) -> None:
    with (
        open_profile(folder, campaign()),
        pytest.raises(ProfileError, match="another process is writing"),
        open_profile(folder, campaign()),
    ):
        pass
    with open_profile(folder, campaign()) as writer:
        assert writer.missing() == [0, 1, 2]


@pytest.mark.parametrize("name", ["/dev/zero", "../../../../etc/hostname", "README.md"])
def test_other_files_than_those_of_a_profile_are_never_read(finished: Path, name: str) -> None:
    path = finished / "run.json"
    content = json.loads(path.read_text())
    content["files"][name] = hashlib.sha256(Path("/etc/hostname").read_bytes()).hexdigest()
    path.write_text(json.dumps(content))
    with pytest.raises(ProfileError, match=f"lists the files .*{name}.* but a profile has"):
        read_profile(finished)


@pytest.mark.parametrize(
    "name", ["run.json", "requests.parquet", "rounds.parquet", "first_round.safetensors"]
)
def test_only_regular_files_of_a_sensible_size_are_read(finished: Path, name: str) -> None:
    size = 65 * 2**30
    os.truncate(finished / name, size)  # a file with a hole: nothing is stored
    with pytest.raises(ProfileError, match=f"{name} has {size} bytes, more than"):
        read_profile(finished)
    for special in (Path("/dev/zero"), finished / "pipe"):
        if not special.exists():
            os.mkfifo(special)
        (finished / name).unlink()
        (finished / name).symlink_to(special)
        with pytest.raises(ProfileError, match=f"{name}"):
            read_profile(finished)


def test_only_the_profile_of_a_run_may_be_deleted_and_made_again(
    finished: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run / "profile")
    for folder in (finished, run / "profile"):
        damage(folder / "rounds.parquet")
    with pytest.raises(ProfileError, match="get the profile again") as refused:
        read_profile(finished)
    assert "delete" not in str(refused.value)
    for name in ("recipe.yaml", "workload.jsonl"):
        (run / name).write_text("")
    message = f"delete the folder {run / 'profile'} and run again with --resume"
    with pytest.raises(ProfileError, match=message):
        read_profile(run / "profile")


def test_a_place_where_nothing_can_be_made_is_said(tmp_path: Path) -> None:
    with (
        pytest.raises(ProfileError, match=r"cannot write the profile at /proc/none/profile: no "),
        open_profile(Path("/proc/none/profile"), campaign()),
    ):
        pass


def test_a_profile_of_values_that_cannot_be_is_refused(folder: Path) -> None:
    with open_profile(folder, campaign(requests=2)) as writer:
        part = records(writer.campaign, 0)
        place = part.requests.schema.get_field_index("rounds")
        wrong = part.requests.set_column(
            place, part.requests.schema.field(place), pa.array([4, 9], pa.int32())
        )
        writer.write_shard(0, part._replace(requests=wrong))
        writer.finish()
    message = r"requests\.parquet: request 'r1' has 9 rounds in 2 output blocks, .*; get"
    with pytest.raises(ProfileError, match=message):
        read_profile(folder)
