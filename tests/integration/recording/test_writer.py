"""How a recording grows: each start, and each data-parallel replica, has a segment of its own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dwise_predict.recording import Recording, segments
from dwise_predict.recording_writer import RecordingWriter
from tests.recordings import FINGERPRINT

HEADER = Recording(fingerprint=FINGERPRINT, slots=4)


def test_replicas_that_start_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        writers = list(pool.map(lambda _: RecordingWriter(tmp_path, HEADER), range(8)))
    assert sorted(writer.segment for writer in writers) == list(range(1, 9))
    for writer in writers:
        writer.append({"shard": writer.segment})
        writer.flush()
    assert [path.read_text() for path in segments(tmp_path)] == [
        f'{{"shard": {number}}}\n' for number in range(1, 9)
    ]
