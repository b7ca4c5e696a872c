"""What a line of a recording may say: a round, or a request that was served."""

from __future__ import annotations

import base64
import binascii
import json
import math
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(allow_inf_nan=False)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class _Record(BaseModel):
    # Records of a later release may say more.
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    shard: Annotated[int, Field(ge=1)]


class RoundRecord(_Record):
    """One round of a server; columns of ``rounds.parquet``."""

    index: Count
    start_s: Seconds
    wall_ms: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    slots: Annotated[int, Field(ge=1)]
    prefill_slots: Count
    kv_tokens: Count
    residents: Count
    waiting: Count

    @model_validator(mode="after")
    def _fits(self) -> RoundRecord:
        if self.prefill_slots > self.slots:
            raise ValueError(f"{self.prefill_slots} of {self.slots} slots held prompt blocks")
        return self


class RequestRecord(_Record):
    """One request and its labels; columns of ``requests.parquet`` but those of the workload.

    ``words`` and ``newlines`` are NaN where the server had no tokenizer. ``hidden`` holds the
    first-round mean, base64 of float16.
    """

    request_id: Annotated[str, Field(min_length=1)]
    words: float
    newlines: float
    prompt_tokens: Count
    prompt_sha256: Sha256 | None = None
    token_bins: list[Count] | None = None
    prompt_ids: list[Count] | None = None
    prompt_blocks: Count
    budget_tokens: Annotated[int, Field(ge=1)]
    output_tokens: Count
    output_blocks: Count
    rounds: Annotated[int, Field(ge=1)]
    rounds_per_block: list[Annotated[int, Field(ge=1)]]
    first_block_masked: Count
    finish_reason: Literal["eos", "budget", "abort"]
    admission_estimate: Seconds | None = None
    refined_estimate: Seconds | None = None
    arrival_s: Seconds
    admitted_s: Seconds | None
    first_round_s: Seconds | None
    first_block_s: Seconds | None
    finished_s: Seconds
    hidden: str

    @model_validator(mode="after")
    def _fits(self) -> RequestRecord:
        for name in ("words", "newlines"):
            count = getattr(self, name)
            if not math.isnan(count) and not (count >= 0 and count.is_integer()):
                raise ValueError(f"{name} must be a count, not {count}")
        if self.rounds != sum(self.rounds_per_block):
            raise ValueError(f"rounds is {self.rounds}, its blocks took {self.rounds_per_block}")
        if self.output_blocks != len(self.rounds_per_block):
            raise ValueError(f"output_blocks is {self.output_blocks}, rounds_per_block has others")
        if self.output_tokens > self.budget_tokens:
            raise ValueError(
                f"{self.output_tokens} output tokens with a budget of {self.budget_tokens}"
            )
        served = self.finish_reason != "abort"
        if served and (self.admitted_s is None or self.first_round_s is None):
            raise ValueError("it was served, and has no admitted_s or first_round_s")
        try:
            mean = np.frombuffer(base64.b64decode(self.hidden, validate=True), np.float16)
        except (binascii.Error, ValueError) as error:
            raise ValueError("hidden is no base64 of float16") from error
        if not np.isfinite(mean).all():
            raise ValueError("hidden has numbers that are not finite")
        return self


def parse_record(line: bytes) -> dict[str, Any]:
    """A checked line as it is; those of requests have a ``request_id``.

    Raises ValueError, whose text is one line, for what is no record.
    """
    record = json.loads(line)
    if not isinstance(record, dict):
        raise ValueError(f"a record is an object, not {type(record).__name__}")
    kind = RequestRecord if "request_id" in record else RoundRecord
    try:
        kind.model_validate(record)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ")
        raise ValueError(f"{field}: {message}" if field else message) from error
    return record
