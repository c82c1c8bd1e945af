"""Manifests: what an export holds, a row an object, for other programs to read."""

from __future__ import annotations

import io
from enum import Enum

import msgspec
import pyarrow as pa
from pyarrow import csv, parquet

MANIFEST_SCHEMA = pa.schema(
    [
        pa.field("type", pa.string(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("checksum", pa.string(), nullable=False),
        pa.field("mtime", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("address", pa.string(), nullable=False),
        pa.field("content_type", pa.string(), nullable=False),
        pa.field("commit", pa.string(), nullable=False),
    ]
)
"""`type` is added, changed or removed; `address` where the object lies in the lake, a full URI."""


class ManifestFormat(str, Enum):
    """Is the form of a manifest's files, and how their names end."""

    PARQUET = "parquet"
    CSV = "csv"
    JSONL = "jsonl"


def encode_manifest(table: pa.Table, form: ManifestFormat) -> bytes:
    """Returns rows of MANIFEST_SCHEMA as a file."""
    if form is ManifestFormat.JSONL:
        return b"".join(msgspec.json.encode(row) + b"\n" for row in table.to_pylist())
    file = io.BytesIO()
    if form is ManifestFormat.CSV:
        csv.write_csv(table, file)
    else:
        parquet.write_table(table, file)
    return file.getvalue()
