"""Generated Delta logs over files at any address, as Arrow checkpoints."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from sparklake.metadata.delta.table_files import folders_of, partition_of, partition_value, unlike

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_TEXT, _LONG, _INTEGER = pa.string(), pa.int64(), pa.int32()
_TEXTS = pa.map_(_TEXT, _TEXT)
_ADD = pa.struct(
    {
        "path": _TEXT,
        "partitionValues": _TEXTS,
        "size": _LONG,
        "modificationTime": _LONG,
        "dataChange": pa.bool_(),
        "stats": _TEXT,
    }
)
_META_DATA = pa.struct(
    {
        "id": _TEXT,
        "name": _TEXT,
        "description": _TEXT,
        "format": pa.struct({"provider": _TEXT, "options": _TEXTS}),
        "schemaString": _TEXT,
        "partitionColumns": pa.list_(_TEXT),
        "configuration": _TEXTS,
        "createdTime": _LONG,
    }
)
_PROTOCOL = pa.struct(
    {
        "minReaderVersion": _INTEGER,
        "minWriterVersion": _INTEGER,
        "readerFeatures": pa.list_(_TEXT),
        "writerFeatures": pa.list_(_TEXT),
    }
)
# Readers expect these columns, too, although generated tables have no values there.
_REMOVE = pa.struct({"path": _TEXT, "deletionTimestamp": _LONG, "dataChange": pa.bool_()})
_TXN = pa.struct({"appId": _TEXT, "version": _LONG, "lastUpdated": _LONG})
CHECKPOINT_SCHEMA = pa.schema(
    {"txn": _TXN, "add": _ADD, "remove": _REMOVE, "metaData": _META_DATA, "protocol": _PROTOCOL}
)

READ_ONLY = "sparklakeView"
"""An unsupported writer feature, so that every writer refuses to modify generated tables."""


@dataclass(frozen=True, slots=True)
class TableShape:
    """A Delta table without its files. `schema` is Spark's, as JSON."""

    id: str
    schema: str
    partition_columns: Sequence[str]
    reader_features: Sequence[str] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)

    def protocol(self) -> dict[str, Any]:
        features = list(self.reader_features)
        return {
            "minReaderVersion": 3 if features else 1,
            "minWriterVersion": 7,
            **({"readerFeatures": features} if features else {}),
            "writerFeatures": [*features, READ_ONLY],
        }

    def meta_data(self) -> dict[str, Any]:
        return {
            "id": str(UUID(self.id[:32])),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": self.schema,
            "partitionColumns": list(self.partition_columns),
            "configuration": dict(self.configuration),
            "createdTime": 0,
        }


def last_checkpoint(version: int, size: int) -> bytes:
    """Return the pointer to a checkpoint of `size` actions."""
    return json.dumps({"version": version, "size": size}).encode()


def checkpointed_commit() -> bytes:
    """Return the commit of a version with all actions in its checkpoint."""
    info = {"timestamp": 0, "operation": "VIEW", "operationParameters": {}}
    return json.dumps({"commitInfo": info}).encode() + b"\n"


def shape_batch(shape: TableShape) -> pa.RecordBatch:
    rows = [{"protocol": shape.protocol()}, {"metaData": shape.meta_data()}]
    return pa.RecordBatch.from_pylist(rows, schema=CHECKPOINT_SCHEMA)


def version_checksum(shape: TableShape, files: int, size: int) -> bytes:
    """Return the checksum file, which saves readers a scan of the checkpoint."""
    summary = {
        "tableSizeBytes": size,
        "numFiles": files,
        "numMetadata": 1,
        "numProtocol": 1,
        "setTransactions": [],
        "domainMetadata": [],
        "metadata": shape.meta_data(),
        "protocol": shape.protocol(),
    }
    return json.dumps(summary).encode()


def add_batches(
    files: Iterable[pa.RecordBatch], shared: NDArray[np.int64]
) -> Iterator[pa.RecordBatch]:
    """Convert FILE_SCHEMA to CHECKPOINT_SCHEMA. `shared` are hashes of repeated URIs."""
    for batch in files:
        uris, relative = batch.column("uri"), batch.column("relative")
        parts = {
            "path": unlike(uris, relative, shared),
            "partitionValues": _partition_values(relative),
            "size": batch.column("size"),
            "modificationTime": batch.column("mtime"),
            "dataChange": pa.repeat(pa.scalar(False), len(batch)),
            "stats": pa.nulls(len(batch), pa.string()),
        }
        adds = pa.StructArray.from_arrays(list(parts.values()), fields=list(_ADD))
        columns = {each.name: pa.nulls(len(batch), each.type) for each in CHECKPOINT_SCHEMA}
        yield pa.record_batch(list({**columns, "add": adds}.values()), schema=CHECKPOINT_SCHEMA)


def _partition_values(relative: pa.Array) -> pa.MapArray:
    folders = folders_of(relative)
    values = [
        [(name, partition_value(text)) for name, text in partition_of(folder)]
        for folder in folders.dictionary.to_pylist()
    ]
    return pc.take(pa.array(values, _TEXTS), folders.indices)
