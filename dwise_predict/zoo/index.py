"""``index.yaml`` as typed entries."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from dwise_predict.fingerprint import Fingerprint

_FOLDER = Path(__file__).parent
_INDEX = _FOLDER / "index.yaml"


class _Record(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=()
    )


class HeadlineMetrics(_Record):
    """Of the bundle's metrics.json: on prompts that were not trained on."""

    n_eval: int
    rounds_p50: float
    admission_spearman: float
    refined_spearman: float
    refined_spearman_within: float
    refined_median_ratio: float


class ZooEntry(_Record):
    """One model."""

    name: str = Field(description="Also of its recipe.")
    model: str = Field(description="Model of the paper, or the embedded one.")
    status: Literal["published", "recipe only"]
    shipped: bool = Field(default=False, description="The bundle lies in the package.")
    bundle: str | None = Field(default=None, description="Hub repository of the bundle.")
    revision: str | None = Field(default=None, description="Commit of that repository.")
    fingerprint: Fingerprint | None = Field(default=None, description="Of the bundle.")
    metrics: HeadlineMetrics | None = None
    note: str

    @model_validator(mode="after")
    def _published_means_measured(self) -> ZooEntry:
        published = self.status == "published"
        if published != (self.shipped or self.bundle is not None):
            raise ValueError("a published entry, and no other, has a bundle")
        if (self.bundle is None) != (self.revision is None):
            raise ValueError("a bundle on the Hub is pinned by its commit")
        if published != (self.fingerprint is not None) or published != (self.metrics is not None):
            raise ValueError("fingerprint and metrics are those of a bundle, never anything else")
        return self


@cache
def read_index() -> tuple[ZooEntry, ...]:
    """Every entry, in the order of the file."""
    entries = yaml.safe_load(_INDEX.read_text(encoding="utf-8"))["models"]
    return tuple(ZooEntry.model_validate(entry) for entry in entries)


def bundled_folder(name: str) -> Path:
    """Folder of a bundle that lies in the package."""
    return _FOLDER / name
