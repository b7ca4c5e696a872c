"""The published description of the format is that of the code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

from dwise_predict.bundle.json_schema import MODELS, json_schema
from dwise_predict.bundle.schema import FILES, FORMAT_VERSION

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "bundle-format.md").read_text()


def models(kind: Any) -> set[type[BaseModel]]:
    """A model and all models inside it."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        inner = [models(field.annotation) for field in kind.model_fields.values()]
        return {kind}.union(*inner)
    return set().union(*(models(argument) for argument in get_args(kind)))


def test_the_published_json_schema_is_the_one_of_the_code() -> None:
    published = json.loads((DOCS / "bundle-format.schema.json").read_text())
    assert published == json_schema(), (
        "python -m dwise_predict.bundle.json_schema > docs/bundle-format.schema.json"
    )


def test_every_field_is_described_in_code_and_page() -> None:
    for model in set().union(*map(models, MODELS.values())):
        own = model.__module__.startswith("dwise_predict.bundle")
        for name, field in model.model_fields.items():
            assert re.search(rf"`(?:\w+\.)*{name}`", PAGE), (model, name)
            assert field.description or not own, (model, name)


def test_every_file_and_the_version_are_on_the_page() -> None:
    for name in ("config.json", *FILES):
        assert f"`{name}`" in PAGE
    assert f"`{FORMAT_VERSION}`" in PAGE
