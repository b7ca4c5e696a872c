"""Profiles: labelled requests, rounds and first-round hidden means of one served workload."""

from dwise_predict.profile.reading import (
    Profile,
    Records,
    read_profile,
    read_run_info,
    token_bins_of,
)
from dwise_predict.profile.records import (
    LABEL_COLUMNS,
    REQUESTS_SCHEMA,
    ROUNDS_SCHEMA,
    Batching,
    Campaign,
    Counts,
    RunInfo,
    WorkloadId,
)
from dwise_predict.profile.store import ProfileWriter, open_profile, utc_now

__all__ = [
    "LABEL_COLUMNS",
    "REQUESTS_SCHEMA",
    "ROUNDS_SCHEMA",
    "Batching",
    "Campaign",
    "Counts",
    "Profile",
    "ProfileWriter",
    "Records",
    "RunInfo",
    "WorkloadId",
    "open_profile",
    "read_profile",
    "read_run_info",
    "token_bins_of",
    "utc_now",
]
