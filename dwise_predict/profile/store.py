"""Writing a profile shard by shard, so that a killed run loses at most one shard's work."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa

from dwise_predict.errors import ProfileError
from dwise_predict.files import locked, make_folder, write_bytes, write_folder
from dwise_predict.profile.encoding import digest, hidden_bytes, json_bytes, table_bytes
from dwise_predict.profile.reading import (
    Records,
    read_json,
    read_records,
    read_run_info,
    start_over,
)
from dwise_predict.profile.records import (
    DATA_FILES,
    HIDDEN_FILE,
    REQUESTS_FILE,
    ROUNDS_FILE,
    RUN_FILE,
    SHARDS_FOLDER,
    Campaign,
    Counts,
    RunInfo,
    ShardInfo,
    campaign_differences,
)

_CAMPAIGN_FILE = "campaign.json"
_SHARD_FILE = "shard.json"


class ProfileWriter:
    """A profile folder being written.

    While running, the folder holds ``shards/``: ``campaign.json`` and one folder per finished
    shard. :meth:`finish` merges them; ``run.json`` is written last and makes the profile whole.
    Open one with :func:`open_profile`.
    """

    def __init__(self, folder: Path, campaign: Campaign) -> None:
        self.folder = folder
        self.campaign = campaign

    @property
    def finished(self) -> bool:
        """Whether the profile is whole."""
        return (self.folder / RUN_FILE).is_file()

    def missing(self) -> list[int]:
        """Shards still to be served."""
        if self.finished:
            return []
        return [i for i in range(self.campaign.shards) if not self._shard(i).is_dir()]

    def verify(self) -> None:
        """Raise ProfileError, naming the shard, when a finished shard is corrupted."""
        if not self.finished:
            for shard in sorted(set(range(self.campaign.shards)) - set(self.missing())):
                self._read_shard(shard)

    def write_shard(self, shard: int, records: Records) -> None:
        """Keep a served shard, in one step."""
        contents = _contents(records)
        info = ShardInfo(shard=shard, files={k: digest(v) for k, v in contents.items()})
        with _writing(self._shard(shard), self._kept()):
            write_folder(self._shard(shard), {**contents, _SHARD_FILE: json_bytes(info)})

    def finish(self) -> None:
        """Merge all shards into the profile and drop them.

        Raises ProfileError when a shard is missing or corrupted; it is named.
        """
        if not self.finished:
            self._merge()
        shards = self.folder / SHARDS_FOLDER
        if shards.exists():
            with _writing(shards, "the profile is complete, its shards can be deleted"):
                shutil.rmtree(shards)

    def _merge(self) -> None:
        shards = [self._read_shard(i) for i in range(self.campaign.shards)]
        merged = Records(
            requests=pa.concat_tables([shard.requests for shard in shards]).combine_chunks(),
            rounds=pa.concat_tables([shard.rounds for shard in shards]).combine_chunks(),
            hidden=np.concatenate([shard.hidden for shard in shards]),
        )
        contents = _contents(merged)
        run = RunInfo(
            **dict(self.campaign),
            finished_at=utc_now(),
            counts=Counts(requests=merged.requests.num_rows, rounds=merged.rounds.num_rows),
            files={name: digest(content) for name, content in contents.items()},
        )
        with _writing(self.folder, self._kept()):
            for name, content in contents.items():
                write_bytes(self.folder / name, content)
            write_bytes(self.folder / RUN_FILE, json_bytes(run))

    def _read_shard(self, shard: int) -> Records:
        folder = self._shard(shard)
        remedy = f"delete the folder {folder} and run again with --resume to have it served again"
        info = read_json(folder / _SHARD_FILE, ShardInfo, remedy)
        records = read_records(folder, info.files, remedy)
        expected = len(self.campaign.shard_rows(shard))
        if info.shard != shard or records.requests.num_rows != expected:
            raise ProfileError(f"{folder} is not shard {shard} of this profile; {remedy}")
        return records

    def _shard(self, shard: int) -> Path:
        return self.folder / SHARDS_FOLDER / f"shard-{shard:05}"

    def _kept(self) -> str:
        done = self.campaign.shards - len(self.missing())
        return (
            f"{done} of {self.campaign.shards} shards are finished and kept: make it writable or "
            "free some space, then run again with --resume"
        )


@contextmanager
def open_profile(folder: Path, campaign: Campaign) -> Iterator[ProfileWriter]:
    """Start a profile in ``folder``, or continue it when it holds shards of the same campaign.

    Raises:
        ProfileError: the folder holds something else, belongs to another campaign (the
            differences are named), holds a corrupted shard (named), is being written by
            another process or cannot be written.
    """
    with ExitStack() as stack:
        with _writing(folder, "choose a folder that can be written"):
            make_folder(folder)
            busy = ProfileError(
                f"another process is writing the profile {folder}: wait for it, or choose "
                "another folder"
            )
            stack.enter_context(locked(folder, busy))
            writer = ProfileWriter(folder, _join(folder, campaign))
        writer.verify()
        yield writer


def utc_now() -> datetime:
    """Now, to the second."""
    return datetime.now(timezone.utc).replace(microsecond=0)


def _join(folder: Path, campaign: Campaign) -> Campaign:
    """The campaign that ``folder`` already belongs to, or ``campaign`` once it is written."""
    header = folder / SHARDS_FOLDER / _CAMPAIGN_FILE
    old: Campaign
    if (folder / RUN_FILE).is_file():
        old = read_run_info(folder)
    elif header.is_file():
        old = read_json(header, Campaign, start_over(folder))
    else:
        names = {path.name for path in folder.iterdir()} - {SHARDS_FOLDER}
        if any(header.parent.glob("shard-*")):
            raise ProfileError(
                f"{header} is missing, so nobody knows what the shards beside it belong to; "
                f"{start_over(folder)}"
            )
        if names and names <= set(DATA_FILES):
            raise ProfileError(f"{folder / RUN_FILE} is missing; {start_over(folder)}")
        if strangers := sorted(names):
            raise ProfileError(
                f"{folder} is no profile folder: it holds {', '.join(strangers[:3])}; choose an "
                "empty or new one"
            )
        header.parent.mkdir(exist_ok=True)
        write_bytes(header, json_bytes(campaign))
        return campaign
    if differences := campaign_differences(old, campaign):
        raise ProfileError(
            f"{folder} holds a profile of something else ({'; '.join(differences)}): choose "
            f"another folder, or {start_over(folder)}"
        )
    return old


@contextmanager
def _writing(path: Path, advice: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ProfileError(
            f"cannot write the profile at {path}: {error.strerror or error}; {advice}"
        ) from error


def _contents(records: Records) -> dict[str, bytes]:
    return {
        REQUESTS_FILE: table_bytes(records.requests),
        ROUNDS_FILE: table_bytes(records.rounds),
        HIDDEN_FILE: hidden_bytes(records.hidden),
    }
