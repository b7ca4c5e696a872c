"""One request of a workload, whatever its origin: generated, a public data set or a JSONL file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

Split = Literal["train", "eval"]
Role = Literal["system", "user", "assistant"]


class Message(BaseModel):
    """One chat turn."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    role: Role
    content: str


class Request(BaseModel):
    """One prompt to serve and label."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    request_id: str = Field(min_length=1, description="Unique within its workload.")
    messages: tuple[Message, ...] = Field(min_length=1)
    category: str = Field(default="default", min_length=1, max_length=80)
    dataset: str = Field(
        default="own", min_length=1, max_length=80, description="Where the prompt comes from."
    )
    split: Split | None = Field(
        default=None, description="None lets training split by prompt hash; see split_requests."
    )
    max_new_tokens: int | None = Field(default=None, gt=0, description="None: the recipe's budget.")
    answer: str | None = Field(default=None, description="Expected answer of checkable requests.")

    @field_validator("category", "dataset")
    @classmethod
    def _is_a_label(cls, value: str) -> str:
        # Labels are published with bundles, where anything like a local path is refused.
        if not value.isprintable() or "\\" in value or value.startswith(("/", "~")):
            raise ValueError("must be a plain name: printable, no backslash, no / or ~ in front")
        return value

    @property
    def text(self) -> str:
        """The prompt as one string, before the chat template: what word and line counts use."""
        return "\n".join(message.content for message in self.messages)

    @property
    def prompt_sha256(self) -> str:
        """Hex digest that identifies the prompt in profiles, which store no prompt text."""
        canonical = "\x1e".join(f"{m.role}\x1f{m.content}" for m in self.messages)
        return hashlib.sha256(canonical.encode()).hexdigest()


def workload_sha256(requests: Sequence[Request]) -> str:
    """Digest of all requests with their order, prompts, budgets and answers."""
    lines = (json.dumps(request.model_dump(mode="json"), sort_keys=True) for request in requests)
    total = hashlib.sha256()
    for line in lines:
        total.update(line.encode() + b"\n")
    return total.hexdigest()


def word_count(text: str) -> int:
    """Whitespace-separated words, the first admission feature (paper Section 4.2)."""
    return len(text.split())


def newline_count(text: str) -> int:
    """Newline characters, the second admission feature (paper Section 4.2)."""
    return text.count("\n")
