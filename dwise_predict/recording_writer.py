"""How an engine appends to a recording (read by :mod:`dwise_predict.recording`)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dwise_predict.errors import ProfileError
from dwise_predict.files import locked, write_text
from dwise_predict.fingerprint import fingerprint_differences
from dwise_predict.predictors.features import token_bins
from dwise_predict.recording import HEADER, Recording, read_recording, segments


class RecordingWriter:
    """A new segment of the recording in ``folder``, which is made if there is none.

    ``segment`` is its number. Raises ProfileError when the folder cannot be written or holds a
    recording that does not fit ``header``.
    """

    def __init__(self, folder: Path, header: Recording) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # Data-parallel replicas of one server begin at the same moment.
            with locked(folder, None):
                if (folder / HEADER).is_file():
                    _require_same(folder, read_recording(folder), header)
                else:
                    write_text(folder / HEADER, header.model_dump_json(indent=1))
                self.segment = 1 + max((int(p.stem) for p in segments(folder)), default=0)
                path = folder / f"{self.segment:05}.jsonl"
                # Appended to, line by line: what an atomic rewrite of the whole would cost grows.
                self.file = path.open("x", encoding="ascii")
        except OSError as error:
            raise ProfileError(f"cannot record into {folder}: {error.strerror}") from error

    def append(self, record: Mapping[str, object]) -> None:
        """Add a record; :meth:`flush` brings it to the disk. Raises OSError."""
        self.file.write(json.dumps(record) + "\n")

    def flush(self) -> None:
        """What was appended survives the process. Raises OSError."""
        self.file.flush()


def in_sample(request_id: str, share: float) -> bool:
    """Whether a request is in a sample of ``share``; alike in every process and on every run."""
    digest = hashlib.blake2b(request_id.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") < share * 2**64


def prompt_record(ids: npt.NDArray[np.uint32], bins: bool, tokens: bool) -> dict[str, object]:
    """What a record says of a prompt: its hash, and on request token bins and token ids."""
    digest = hashlib.sha256(ids.astype("<u4").tobytes()).hexdigest()
    record: dict[str, object] = {"prompt_sha256": digest}
    if bins:
        record["token_bins"] = token_bins(ids)
    if tokens:
        record["prompt_ids"] = ids.tolist()
    return record


def _require_same(folder: Path, old: Recording, new: Recording) -> None:
    differences = fingerprint_differences(old.fingerprint, new.fingerprint)
    differences += [
        f"{name}: {before} -> {after}"
        for name in ("slots", "policy")
        if (before := getattr(old, name)) != (after := getattr(new, name))
    ]
    if differences:
        raise ProfileError(
            f"{folder} is a recording of another server ({'; '.join(differences)}): choose "
            "another folder for DWISE_PROFILE"
        )
