"""Profile data as bytes, and their hash."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel
from safetensors.numpy import save as save_tensors

from dwise_predict.profile.records import HIDDEN_KEY

Hidden = npt.NDArray[np.float16]


def table_bytes(table: pa.Table) -> bytes:
    """A table as the bytes of a Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    content: bytes = sink.getvalue().to_pybytes()
    return content


def hidden_bytes(hidden: Hidden) -> bytes:
    """Hidden means [N, hidden] as the bytes of a safetensors file."""
    return save_tensors({HIDDEN_KEY: np.ascontiguousarray(hidden)})


def json_bytes(record: BaseModel) -> bytes:
    """A record as the bytes of a JSON file."""
    return record.model_dump_json(indent=2).encode() + b"\n"


def digest(content: bytes) -> str:
    """SHA-256 as hex."""
    return hashlib.sha256(content).hexdigest()
