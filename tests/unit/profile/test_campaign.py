from __future__ import annotations

from datetime import datetime, timezone

from dwise_predict.fingerprint import Fingerprint, fingerprint_differences
from dwise_predict.profile import Campaign, WorkloadId
from dwise_predict.profile.records import campaign_differences
from dwise_predict.recipe import EngineSettings

FINGERPRINT = Fingerprint(
    model="local:m",
    revision="r",
    architecture="SDARForCausalLM",
    hidden_size=8,
    algorithm="LowConfidence",
    algorithm_parameters={"threshold": 0.9},
    block_size=4,
    fdfo=True,
    budget_tokens=16,
    engine="torch",
    engine_version="1",
    dtype="float32",
)
CAMPAIGN = Campaign(
    fingerprint=FINGERPRINT,
    workload=WorkloadId(name="builtin", sha256="w", requests=10),
    seed=0,
    engine=EngineSettings(slots=4, device="cpu", threads=1),
    shard_requests=4,
    library_version="1",
    started_at=datetime(2026, 1, 1, tzinfo=timezone.utc),
)


def test_fingerprints_differ_field_by_field() -> None:
    other = FINGERPRINT.model_copy(
        update={"revision": "s", "algorithm_parameters": {"threshold": 0.8}}
    )
    assert fingerprint_differences(FINGERPRINT, FINGERPRINT) == []
    assert fingerprint_differences(FINGERPRINT, other) == [
        "revision: r -> s",
        "algorithm_parameters: {'threshold': 0.9} -> {'threshold': 0.8}",
    ]


def test_campaigns_differ_in_what_decides_batches_and_labels_only() -> None:
    later = CAMPAIGN.model_copy(
        update={"library_version": "2", "started_at": datetime(2027, 1, 1, tzinfo=timezone.utc)}
    )
    assert campaign_differences(CAMPAIGN, later) == []
    other = CAMPAIGN.model_copy(
        update={
            "fingerprint": FINGERPRINT.model_copy(update={"dtype": "bfloat16"}),
            "workload": WorkloadId(name="builtin", sha256="x", requests=10),
            "engine": CAMPAIGN.engine.model_copy(update={"slots": 8, "threads": 2}),
            "shard_requests": 5,
            "seed": 1,
        }
    )
    assert campaign_differences(CAMPAIGN, other) == [
        "fingerprint.dtype: float32 -> bfloat16",
        "workload.sha256: w -> x",
        "seed: 0 -> 1",
        "engine.slots: 4 -> 8",
        "engine.threads: 1 -> 2",
        "shard_requests: 4 -> 5",
    ]


def test_shards_cut_the_workload_into_consecutive_rows() -> None:
    assert CAMPAIGN.shards == 3
    rows = [list(CAMPAIGN.shard_rows(shard)) for shard in range(CAMPAIGN.shards)]
    assert rows == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
