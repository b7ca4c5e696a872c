"""The JSON Schema of a bundle's JSON files: ``python -m dwise_predict.bundle.json_schema``."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from dwise_predict.bundle.metrics import Metrics
from dwise_predict.bundle.schema import (
    CONFIG_FILE,
    FORMAT_VERSION,
    METRICS_FILE,
    PROVENANCE_FILE,
    SMOKE_FILE,
    BundleConfig,
    Provenance,
    SmokePrediction,
)

MODELS: dict[str, type[BaseModel]] = {
    CONFIG_FILE: BundleConfig,
    METRICS_FILE: Metrics,
    PROVENANCE_FILE: Provenance,
    SMOKE_FILE: SmokePrediction,
}
"""Schema of each JSON file."""


def json_schema() -> dict[str, Any]:
    """One schema (draft 2020-12): an object whose keys are the files of a bundle folder."""
    references, definitions = models_json_schema(
        [(model, "validation") for model in MODELS.values()],
        title=f"dwise-predict bundle, format {FORMAT_VERSION}",
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "description": "Each property is the content of the JSON file of that name.",
        "type": "object",
        "properties": {name: references[(model, "validation")] for name, model in MODELS.items()},
        "required": list(MODELS),
        **definitions,
    }


if __name__ == "__main__":
    print(json.dumps(json_schema(), indent=1))
