"""Profiles of recordings: several servers, duplicates, gaps, live traffic."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from dwise_predict.assembly import (
    assemble_live_profile,
    assemble_profile,
    join_recordings,
    missing_requests,
)
from dwise_predict.errors import ProfileError
from dwise_predict.profile import read_profile
from dwise_predict.recording import campaign_tag, recorded_id
from dwise_predict.workload.schema import Message, Request
from tests.profiles import small_workload
from tests.recordings import FINGERPRINT, HIDDEN, record_of, round_record, write_recording

REQUESTS = small_workload(6)
TAG = campaign_tag(REQUESTS, "stock")


def records(requests: Sequence[Request], tag: str = TAG, shard: int = 1) -> list[dict[str, object]]:
    return [record_of(r, recorded_id(r.request_id, tag), shard) for r in requests]


def assemble(folders: Sequence[Path], out: Path) -> Path:
    return assemble_profile(folders, REQUESTS, out, workload="own", seed=3, budget_tokens=16)


def test_a_profile_of_two_servers_is_that_of_one(tmp_path: Path) -> None:
    one = write_recording(tmp_path / "one", [records(REQUESTS)])
    a = write_recording(
        tmp_path / "a",
        [[round_record(), *records(REQUESTS[:2])], [*records(REQUESTS[2:3], shard=2)]],
    )
    b = write_recording(tmp_path / "b", [[*records(REQUESTS[3:]), round_record()]])
    single = read_profile(assemble([one], tmp_path / "single"))
    merged = read_profile(assemble([a, b], tmp_path / "merged"))
    assert merged.run.fingerprint == FINGERPRINT.model_copy(update={"budget_tokens": 16})
    assert merged.run.workload == single.run.workload and merged.run.seed == 3
    assert np.array_equal(merged.hidden, single.hidden)
    for name in single.requests.column_names:
        if name != "shard":
            assert merged.requests[name].equals(single.requests[name]), name
    # Every start of every server is a shard of its own, and so are its rounds.
    assert merged.requests["shard"].to_pylist() == [1, 1, 2, 3, 3, 3]
    assert merged.rounds["shard"].to_pylist() == [1, 3]


def test_of_requests_recorded_twice_the_last_counts(tmp_path: Path) -> None:
    other = record_of(REQUESTS[1], recorded_id("r001", TAG), rounds_per_block=[5, 4], rounds=9)
    a = write_recording(tmp_path / "a", [records(REQUESTS)])
    b = write_recording(tmp_path / "b", [[*records(REQUESTS[:1]), other]])
    joined = join_recordings([a, b], TAG)
    assert (joined.repeated, joined.differing) == (2, ("r001",))
    assert joined.records["r001"]["rounds"] == 9
    assert join_recordings([b, a], TAG).records["r001"]["rounds"] != 9


def test_records_of_other_campaigns_are_not_mixed_in(tmp_path: Path) -> None:
    other = campaign_tag(REQUESTS[::-1], "stock")
    assert len({TAG, other, campaign_tag(REQUESTS, "mixed")}) == 3
    folder = write_recording(tmp_path / "a", [records(REQUESTS, tag=other), records(REQUESTS[:2])])
    missing = missing_requests(join_recordings([folder], TAG), REQUESTS, 16)
    assert missing == REQUESTS[2:]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rounds": 99}, "rounds is 99"),
        ({"output_blocks": 3}, "output_blocks is 3"),
        ({"rounds": 0, "rounds_per_block": [], "output_blocks": 0}, "rounds: .* greater"),
        ({"rounds_per_block": [-1, 4]}, "rounds_per_block.0"),
        ({"prompt_tokens": -5}, "prompt_tokens"),
        ({"output_tokens": 17, "budget_tokens": 16}, "17 output tokens with a budget of 16"),
        ({"words": -1.0}, "words must be a count"),
        ({"finish_reason": "tired"}, "finish_reason"),
        ({"finished_s": math.nan}, "finished_s"),
        ({"admitted_s": None}, "no admitted_s"),
        ({"hidden": "!"}, "no base64"),
        ({"hidden": base64.b64encode(b"\x00\x7e" * HIDDEN).decode()}, "not finite"),
        ({"hidden": base64.b64encode(b"\x00\x00" * 3).decode()}, "3 numbers, the model 8"),
        ({"shard": None}, "shard"),
    ],
)
def test_impossible_records_are_refused_and_the_place_stays_free(
    tmp_path: Path, change: dict[str, object], words: str
) -> None:
    sent = recorded_id(REQUESTS[2].request_id, TAG)
    folder = write_recording(
        tmp_path / "a", [[*records(REQUESTS), record_of(REQUESTS[2], sent, **change)]]
    )
    with pytest.raises(ProfileError, match=words) as caught:
        assemble([folder], tmp_path / "out")
    assert "\n" not in str(caught.value) and str(folder) in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("line", ["3", "[]", '"request_id"', "{}", '{"request_id": "a"}', "null"])
def test_lines_that_are_no_records_are_named(tmp_path: Path, line: str) -> None:
    folder = write_recording(tmp_path / "a", [records(REQUESTS)], cut=line + "\n")
    with pytest.raises(ProfileError, match=r"00001\.jsonl is damaged in line 7"):
        join_recordings([folder], TAG)


def test_a_header_without_slots_is_damaged(tmp_path: Path) -> None:
    folder = write_recording(tmp_path / "a", [records(REQUESTS)])
    header = folder / "recording.json"
    header.write_text(header.read_text().replace('"slots":2', '"slots":0'))
    with pytest.raises(ProfileError, match="no recording of the SGLang plugin"):
        join_recordings([folder], TAG)


def test_a_recording_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    folder = write_recording(tmp_path / "a", [[*records(REQUESTS), round_record()]])
    joined = join_recordings([folder, tmp_path / "." / "a", tmp_path / "a" / ".." / "a"], TAG)
    assert (joined.repeated, len(joined.rounds)) == (0, 1)


def test_other_prompts_under_the_same_ids_are_refused(tmp_path: Path) -> None:
    """A client of one's own sends ids as they are; the chat template adds words to each prompt."""

    def sent(requests: Sequence[Request], added: int) -> list[dict[str, object]]:
        return [
            record_of(r, r.request_id, words=float(len(r.text.split()) + added)) for r in requests
        ]

    good = write_recording(tmp_path / "good", [sent(REQUESTS, 3)])
    assemble([good], tmp_path / "profile")
    longer = [
        r.model_copy(
            update={"messages": (Message(role="user", content=f"{r.text} and so on" * i),)}
        )
        for i, r in enumerate(REQUESTS, start=1)
    ]
    other = write_recording(tmp_path / "other", [sent(longer, 3)])
    with pytest.raises(ProfileError, match="other prompts than the workload"):
        assemble([other], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_categories_and_splits_do_not_change_which_campaign_it_is() -> None:
    again = [r.model_copy(update={"split": "eval", "category": "x"}) for r in REQUESTS]
    assert campaign_tag(again, "stock") == TAG


def test_gaps_and_other_budgets_are_named(tmp_path: Path) -> None:
    cut = '{"request_id": "r005'
    folder = write_recording(tmp_path / "a", [records(REQUESTS[:4])], cut=cut)
    with pytest.raises(ProfileError, match=r"2 of 6 requests are missing \(r004, r005\)"):
        assemble([folder], tmp_path / "out")
    joined = join_recordings([folder], TAG)
    # Requests 0 and 5 have budgets of their own.
    assert [r.request_id for r in missing_requests(joined, REQUESTS, 99)] == [
        *("r001", "r002", "r003", "r004", "r005"),
    ]
    assert not (tmp_path / "out").exists()


def test_aborted_requests_are_not_served(tmp_path: Path) -> None:
    aborted = record_of(REQUESTS[5], recorded_id("r005", TAG), finish_reason="abort")
    folder = write_recording(tmp_path / "a", [[*records(REQUESTS[:5]), aborted]])
    assert missing_requests(join_recordings([folder], TAG), REQUESTS, 16) == REQUESTS[5:]


@pytest.mark.parametrize(
    ("change", "slots", "words"),
    [
        ({"revision": "r2"}, 2, "revision: r1 -> r2"),
        ({"algorithm_parameters": {"threshold": 0.8}}, 2, "threshold"),
        ({}, 4, "slots: 2 -> 4"),
    ],
)
def test_recordings_of_different_servers_are_refused(
    tmp_path: Path, change: dict[str, object], slots: int, words: str
) -> None:
    a = write_recording(tmp_path / "a", [records(REQUESTS)])
    other = FINGERPRINT.model_copy(update=change)
    b = write_recording(tmp_path / "b", [records(REQUESTS)], other, slots)
    with pytest.raises(ProfileError, match=f"different servers.*{words}"):
        assemble([a, b], tmp_path / "out")


def live(count: int, **more: object) -> list[dict[str, object]]:
    return [record_of(r, f"id-{r.request_id}", **more) for r in small_workload(count)]


def test_live_traffic_becomes_a_profile_without_prompts(tmp_path: Path) -> None:
    health = record_of(REQUESTS[0], "HEALTH_CHECK_1")
    a = write_recording(tmp_path / "a", [[*live(60), health]])
    count, joined = assemble_live_profile([a], tmp_path / "out")
    assert (count, len(joined.records)) == (60, 61)
    profile = read_profile(tmp_path / "out")
    rows = profile.requests.to_pylist()
    assert len(rows) == 60
    assert {(row["category"], row["dataset"]) for row in rows} == {("live", "live")}
    assert profile.run.workload.name == "live"
    assert profile.run.fingerprint.budget_tokens == 16
    held_out = {row["prompt_sha256"] for row in rows if row["split"] == "eval"}
    assert 5 < len(held_out) < 35
    # More traffic does not move a prompt to the other side.
    b = write_recording(tmp_path / "b", [live(120)])
    assemble_live_profile([b], tmp_path / "more")
    for row in read_profile(tmp_path / "more").requests.to_pylist()[:60]:
        assert (row["split"] == "eval") == (row["prompt_sha256"] in held_out)


def test_live_traffic_that_lacks_something_is_refused(tmp_path: Path) -> None:
    nothing = write_recording(tmp_path / "nothing", [[round_record()]])
    with pytest.raises(ProfileError, match="no finished request is recorded"):
        assemble_live_profile([nothing], tmp_path / "out")
    old = live(3)
    del old[1]["prompt_sha256"]
    with pytest.raises(ProfileError, match=r"1 requests .*id-r001.*--workload"):
        assemble_live_profile([write_recording(tmp_path / "old", [old])], tmp_path / "out")
    untold = write_recording(tmp_path / "untold", [live(3, words=math.nan, newlines=math.nan)])
    with pytest.raises(ProfileError, match="skip-tokenizer-init"):
        assemble_live_profile([untold], tmp_path / "out")


def test_a_server_without_a_tokenizer_takes_words_from_the_prompts(tmp_path: Path) -> None:
    untold = [
        record_of(r, recorded_id(r.request_id, TAG), words=math.nan, newlines=math.nan)
        for r in REQUESTS
    ]
    folder = write_recording(tmp_path / "a", [untold])
    table = read_profile(assemble([folder], tmp_path / "out")).requests
    assert table["words"].to_pylist() == [len(r.text.split()) for r in REQUESTS]
