"""The log of a table of files at any address, as an Arrow checkpoint."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from sparklake.delta_log.table_files import folders_of, partition_of, partition_value, unlike

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_TEXTS = pa.map_(pa.string(), pa.string())
_ADD = pa.struct(
    [
        pa.field("path", pa.string()),
        pa.field("partitionValues", _TEXTS),
        pa.field("size", pa.int64()),
        pa.field("modificationTime", pa.int64()),
        pa.field("dataChange", pa.bool_()),
        pa.field("stats", pa.string()),
    ]
)
_META_DATA = pa.struct(
    [
        pa.field("id", pa.string()),
        pa.field("name", pa.string()),
        pa.field("description", pa.string()),
        pa.field(
            "format", pa.struct([pa.field("provider", pa.string()), pa.field("options", _TEXTS)])
        ),
        pa.field("schemaString", pa.string()),
        pa.field("partitionColumns", pa.list_(pa.string())),
        pa.field("configuration", _TEXTS),
        pa.field("createdTime", pa.int64()),
    ]
)
_PROTOCOL = pa.struct(
    [
        pa.field("minReaderVersion", pa.int32()),
        pa.field("minWriterVersion", pa.int32()),
        pa.field("readerFeatures", pa.list_(pa.string())),
        pa.field("writerFeatures", pa.list_(pa.string())),
    ]
)
# Readers expect these columns, too, although generated tables have no values there.
_REMOVE = pa.struct(
    [
        pa.field("path", pa.string()),
        pa.field("deletionTimestamp", pa.int64()),
        pa.field("dataChange", pa.bool_()),
    ]
)
_TXN = pa.struct(
    [
        pa.field("appId", pa.string()),
        pa.field("version", pa.int64()),
        pa.field("lastUpdated", pa.int64()),
    ]
)

CHECKPOINT_SCHEMA = pa.schema(
    [
        pa.field("txn", _TXN),
        pa.field("add", _ADD),
        pa.field("remove", _REMOVE),
        pa.field("metaData", _META_DATA),
        pa.field("protocol", _PROTOCOL),
    ]
)

READ_ONLY = "sparklakeView"
"""A writer feature that no writer supports.

So every writer refuses to change generated tables.
"""


@dataclass(frozen=True, slots=True)
class TableShape:
    """The definition of a Delta table without its files. `schema` is Spark's, as JSON."""

    id: str
    schema: str
    partition_columns: Sequence[str]
    reader_features: Sequence[str] = ()

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
            "configuration": {},
            "createdTime": 0,
        }


def last_checkpoint(version: int, size: int) -> bytes:
    """Return the pointer file to a checkpoint of `size` actions."""
    return json.dumps({"version": version, "size": size}).encode()


def checkpointed_commit() -> bytes:
    """Return the commit file of a version with all actions in its checkpoint."""
    info = {"timestamp": 0, "operation": "VIEW", "operationParameters": {}}
    return json.dumps({"commitInfo": info}).encode() + b"\n"


def shape_batch(shape: TableShape) -> pa.RecordBatch:
    """Return a table's protocol and metaData actions, as CHECKPOINT_SCHEMA."""
    rows = [{"protocol": shape.protocol()}, {"metaData": shape.meta_data()}]
    return pa.RecordBatch.from_pylist(rows, schema=CHECKPOINT_SCHEMA)


def version_checksum(shape: TableShape, files: int, size: int) -> bytes:
    """Return the checksum file: it saves readers a scan of the checkpoint."""
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
    """Yield a table's files, given as FILE_SCHEMA, as CHECKPOINT_SCHEMA.

    `shared` are the hashes of repeated URIs.
    """
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
        columns: Mapping[str, pa.Array] = {
            "add": pa.StructArray.from_arrays(list(parts.values()), fields=list(_ADD))
        }
        yield pa.record_batch(
            [columns.get(each.name, pa.nulls(len(batch), each.type)) for each in CHECKPOINT_SCHEMA],
            schema=CHECKPOINT_SCHEMA,
        )


def _partition_values(relative: pa.Array) -> pa.MapArray:
    folders = folders_of(relative)
    values = [
        [(name, partition_value(text)) for name, text in partition_of(folder)]
        for folder in folders.dictionary.to_pylist()
    ]
    return pc.take(pa.array(values, _TEXTS), folders.indices)
