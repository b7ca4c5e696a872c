"""What the paper's workload is made of: paper.yaml, typed."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from dwise_predict.errors import WorkloadError
from dwise_predict.validation import describe
from dwise_predict.workload.builtin.vocabulary import NAMES
from dwise_predict.workload.paper.readers import READERS

PAPER = Path(__file__).parent / "paper.yaml"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Part(_Section):
    """A number of requests of one category."""

    name: str = Field(pattern=r"^[a-z0-9_]+$")
    category: str = Field(min_length=1)
    licence: str = Field(min_length=1)
    eval: int = Field(ge=0, description="Evaluation requests in the full workload.")
    train: int = Field(ge=0, description="Training requests in the full workload.")


class Source(Part):
    """Requests drawn from files of a data set of the Hub."""

    repo: str
    revision: str | None = None
    files: tuple[str, ...] = Field(min_length=1)
    format: Literal["parquet", "json", "tsv"]
    columns: tuple[str, ...] | None = Field(default=None, description="Names, of tsv only.")
    reader: str = Field(description="What a row is made into.")
    template: str = Field(description="The prompt, with {fields} of the reader.")
    max_words: int | None = Field(default=None, gt=0, description="Longer rows are left out.")

    @field_validator("files")
    @classmethod
    def _stay_inside(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts:
                raise ValueError("should be paths inside the repository")
        return value

    @model_validator(mode="after")
    def _is_readable(self) -> Source:
        if self.reader not in READERS:
            raise ValueError(f"reader {self.reader!r} is none of {', '.join(sorted(READERS))}")
        if (self.format == "tsv") != (self.columns is not None):
            raise ValueError("columns names the columns of format tsv: give both or none")
        try:
            self.template.format_map(dict.fromkeys(READERS[self.reader].fields, ""))
        except (KeyError, IndexError, ValueError) as error:
            known = ", ".join(READERS[self.reader].fields)
            raise ValueError(
                f"template of {self.name} does not fit reader {self.reader}, which has the "
                f"fields {known}: {error}"
            ) from error
        return self


class Needles(Part):
    """Requests that ask for facts hidden in long prompts."""

    tokens: int = Field(
        ge=500, description="Tokens of a prompt, about, under the model's tokenizer."
    )
    facts: tuple[int, int] = Field(description="Fewest and most facts of a prompt.")

    @field_validator("facts")
    @classmethod
    def _are_several(cls, value: tuple[int, int]) -> tuple[int, int]:
        if not 2 <= value[0] <= value[1] <= len(NAMES):
            raise ValueError(f"should be two numbers from 2 to {len(NAMES)}, the smaller first")
        return value


class Manifest(_Section):
    """The whole workload."""

    name: str
    similarity: float = Field(gt=0, le=1)
    sources: tuple[Source, ...]
    needles: Needles

    @property
    def parts(self) -> tuple[Source | Needles, ...]:
        """Sources, then the generated part."""
        return (*self.sources, self.needles)

    @model_validator(mode="after")
    def _names_differ(self) -> Manifest:
        names = [part.name for part in self.parts]
        if len(set(names)) < len(names):
            raise ValueError("every part needs a name of its own")
        return self


def load_manifest(path: Path = PAPER) -> Manifest:
    """Read a manifest; raises WorkloadError naming file and key."""
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except Exception as error:  # PyYAML's constructors leak ValueError, KeyError, IndexError, ...
        raise WorkloadError(
            f"cannot read manifest {path}: {' '.join(str(error).split())}"
        ) from error
    if not isinstance(raw, dict):
        raise WorkloadError(
            f"{path} is no list of data sets: expected the keys {', '.join(Manifest.model_fields)}"
        )
    try:
        return Manifest.model_validate(raw)
    except ValidationError as error:
        raise WorkloadError(f"{path}: {describe(error, Manifest, 'key')}") from error
