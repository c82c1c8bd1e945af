"""Objects as Arrow rows: entries to columns, columns to staged records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from sparklake.errors import InvalidRecordError
from sparklake.graveler.entries import (
    DEFAULT_CONTENT_TYPE,
    AddressType,
    Entry,
    entry_record,
    record_entry,
)
from sparklake.graveler.keys import key_path, object_key
from sparklake.graveler.records import Record, tombstone
from sparklake.stores.objects import check_object_uri, open_object, open_store
from sparklake.stores.objects.keys import check_key
from sparklake.udfs.tasks import Workspace
from sparklake.udfs.writing import RECORD_SCHEMA

OBJECT_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("checksum", pa.string(), nullable=False),
        pa.field("mtime", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("address", pa.string(), nullable=False),
        pa.field("metadata", pa.map_(pa.string(), pa.string()), nullable=False),
        pa.field("content_type", pa.string(), nullable=False),
    ]
)
"""`size` in bytes, `address` a full URI."""

OBJECT_DDL = (
    "path string, size bigint, checksum string, mtime timestamp, address string, "
    "metadata map<string, string>, content_type string"
)

STAGE_SCHEMA = pa.schema(
    [
        *(field.with_nullable(True) for field in OBJECT_SCHEMA),
        pa.field("deleted", pa.bool_()),
    ]
)
"""`path` is required, `size` and `address` too unless `deleted` is true. A missing `checksum` is
computed from the object; a missing `mtime` is the time of staging."""

_MICROSECOND = 1_000
"""Nanoseconds."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """Is an object at a ref.

    `size` in bytes, `mtime` in unix nanoseconds, of whole microseconds, `address` a full URI.
    """

    path: str
    size: int
    checksum: str
    mtime: int
    address: str
    metadata: dict[str, str] = field(default_factory=dict)
    content_type: str = DEFAULT_CONTENT_TYPE


def object_info(record: Record, storage_namespace: str) -> ObjectInfo:
    """Returns the object that a record stands for."""
    entry = record_entry(record)
    return ObjectInfo(
        path=key_path(record[0]),
        size=entry.size,
        checksum=entry.checksum,
        mtime=entry.mtime // _MICROSECOND * _MICROSECOND,
        address=f"{storage_namespace}/{entry.address}" if entry.is_relative else entry.address,
        metadata=dict(entry.metadata),
        content_type=entry.content_type,
    )


def object_batch(objects: Sequence[ObjectInfo]) -> pa.RecordBatch:
    """Returns objects as one batch of OBJECT_SCHEMA."""
    columns = (
        [each.path for each in objects],
        [each.size for each in objects],
        [each.checksum for each in objects],
        [each.mtime // _MICROSECOND for each in objects],
        [each.address for each in objects],
        [list(each.metadata.items()) for each in objects],
        [each.content_type for each in objects],
    )
    arrays = [
        pa.array(values, field.type) for values, field in zip(columns, OBJECT_SCHEMA, strict=True)
    ]
    return pa.record_batch(arrays, schema=OBJECT_SCHEMA)


def object_rows(batch: pa.RecordBatch) -> Iterator[ObjectInfo]:
    """Yields the objects in a batch of OBJECT_SCHEMA."""
    for row in _microsecond_mtimes(batch).to_pylist():
        row["mtime"] *= _MICROSECOND
        row["metadata"] = dict(row["metadata"])
        yield ObjectInfo(**row)


def stage_body(
    workspace: Workspace, staged_at: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Turns rows of STAGE_SCHEMA into rows of RECORD_SCHEMA; raises InvalidRecordError.

    `staged_at` is in unix nanoseconds.
    """
    for batch in batches:
        rows = _microsecond_mtimes(_staged_columns(batch)).to_pylist()
        yield record_batch([_staged_record(row, workspace, staged_at) for row in rows])


def _staged_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns a batch with the types of STAGE_SCHEMA, but for mtimes; other widths are allowed."""
    for index, name in enumerate(batch.schema.names):
        given, wanted = batch.column(index), STAGE_SCHEMA.field(name).type
        if not _means(given.type, wanted):
            raise InvalidRecordError(f"the column {name} is {given.type}; give {wanted}")
        if given.type != wanted and not pa.types.is_timestamp(wanted):
            try:
                batch = batch.set_column(index, name, given.cast(wanted))
            except pa.ArrowInvalid as error:
                raise InvalidRecordError(f"the column {name}: {error}") from error
    return batch


def _means(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Tells whether a column's values are what another type's are, in another width or encoding."""
    if pa.types.is_dictionary(given):
        given = given.value_type
    if pa.types.is_map(given) and pa.types.is_map(wanted):
        return _means(given.key_type, pa.string()) and _means(given.item_type, pa.string())
    is_text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    kinds = (
        lambda kind: any(test(kind) for test in is_text),
        pa.types.is_integer,
        pa.types.is_boolean,
        pa.types.is_timestamp,
    )
    return pa.types.is_null(given) or any(kind(given) and kind(wanted) for kind in kinds)


def _staged_record(row: dict[str, Any], workspace: Workspace, staged_at: int) -> Record:
    path = row.get("path")
    if path is None:
        raise InvalidRecordError("a row to stage has no path")
    if row.get("deleted"):
        return tombstone(object_key(path))
    for name in ("size", "address"):
        if row.get(name) is None:
            raise InvalidRecordError(f"the row of {path!r} has no {name}; give every row one")
    if "://" in row["address"]:
        check_object_uri(row["address"])
    else:
        check_key(row["address"])
    mtime = row.get("mtime")
    each = ObjectInfo(
        path=path,
        size=row["size"],
        checksum=row.get("checksum") or object_checksum(workspace, row["address"]),
        mtime=staged_at if mtime is None else mtime * _MICROSECOND,
        address=row["address"],
        metadata=_staged_metadata(row),
        content_type=row.get("content_type") or DEFAULT_CONTENT_TYPE,
    )
    return object_record(each, workspace.storage_namespace)


def _staged_metadata(row: dict[str, Any]) -> dict[str, str]:
    metadata = dict(row.get("metadata") or {})
    for key, value in metadata.items():
        if value is None:
            raise InvalidRecordError(f"the metadata of {row['path']!r} has no value for {key!r}")
    return metadata


def object_checksum(workspace: Workspace, address: str) -> str:
    """Returns the checksum of the object at an address; raises MissingFileError."""
    if "://" not in address:
        return open_store(workspace.storage_namespace).checksum(address)
    store, key = open_object(address)
    return store.checksum(key)


def object_record(each: ObjectInfo, storage_namespace: str) -> Record:
    """Returns the record of an object; an address in the namespace is kept relative to it."""
    inside = each.address.removeprefix(f"{storage_namespace}/")
    relative = "://" not in inside
    if relative:
        check_key(inside)
    entry = Entry(
        address=inside,
        size=each.size,
        checksum=each.checksum,
        mtime=each.mtime,
        metadata=each.metadata,
        content_type=each.content_type,
        address_type=AddressType.RELATIVE if relative else AddressType.FULL,
    )
    return entry_record(each.path, entry)


def record_batch(records: Sequence[Record]) -> pa.RecordBatch:
    """Returns records as one batch of RECORD_SCHEMA."""
    keys = pa.array([key for key, _ in records], pa.binary())
    values = pa.array([stored for _, stored in records], pa.binary())
    return pa.record_batch([keys, values], schema=RECORD_SCHEMA)


def _microsecond_mtimes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns a batch whose mtimes are integers: microseconds since 1970."""
    index = batch.schema.get_field_index("mtime")
    if index < 0:
        return batch
    column = batch.column(index)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", tz=column.type.tz), safe=False).cast(pa.int64())
        return batch.set_column(index, "mtime", column)
    raise InvalidRecordError(f"the column mtime is {column.type}; give timestamps")
