"""Objects as values and as Arrow rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklake.errors import InvalidRowsError
from sparklake.graveler.arrow_batches import required_schema, with_column
from sparklake.graveler.blocks.block import Block
from sparklake.graveler.blocks.entry_columns import ObjectColumns, object_columns
from sparklake.graveler.defaults import DEFAULT_CONTENT_TYPE
from sparklake.graveler.entries import AddressType, Entry, entry_fields, entry_record, is_relative
from sparklake.graveler.keys import key_path
from sparklake.graveler.records import Record, record_data
from sparklake.graveler.times import (
    FIRST_MICROSECOND,
    LAST_MICROSECOND,
    MICROSECOND,
    SECOND_MICROS,
    shown_nanoseconds,
)
from sparklake.stores.objects.addresses import (
    canonical_address,
    shown_address,
    shown_addresses,
    stored_address,
)
from sparklake.stores.objects.key_checks import check_key

OBJECT_SCHEMA = required_schema(
    path=pa.string(),
    size=pa.int64(),
    checksum=pa.string(),
    mtime=pa.timestamp("us", tz="UTC"),
    address=pa.string(),
    metadata=pa.map_(pa.string(), pa.string()),
    content_type=pa.string(),
)
"""`size` is in bytes. `address` is a full URI."""

STAGE_SCHEMA = pa.schema(
    [*(field.with_nullable(True) for field in OBJECT_SCHEMA), pa.field("deleted", pa.bool_())]
)
"""`path` is required. `size` and `address` are required unless `deleted` is true. A missing
`checksum` is computed from the object. A missing `mtime` is the time of staging. A missing
`content_type` is the default one; "" is kept, because imported objects have it."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object at a ref.

    `size` is in bytes. `mtime` is in unix nanoseconds, in whole microseconds and within the years 1
    to 9999. `address` is a full URI.
    """

    path: str
    size: int
    checksum: str
    mtime: int
    address: str
    metadata: dict[str, str] = field(default_factory=dict)
    content_type: str = DEFAULT_CONTENT_TYPE


def object_info(record: Record, storage_namespace: str) -> ObjectInfo:
    """Return the object of a record."""
    address, size, checksum, mtime, metadata, kind, address_type = entry_fields(
        record_data(*record)
    )
    inside = is_relative(address, address_type)
    address = f"{storage_namespace}/{address}" if inside else shown_address(address)
    return ObjectInfo(
        path=key_path(record[0]),
        size=size,
        checksum=checksum,
        mtime=shown_nanoseconds(mtime),
        address=address,
        metadata=metadata,
        content_type=kind,
    )


def object_batch(block: Block, storage_namespace: str) -> pa.RecordBatch:
    """Return records as a batch of OBJECT_SCHEMA."""
    return batch_of_columns(object_columns(block, storage_namespace), storage_namespace)


def batch_of_columns(columns: ObjectColumns, storage_namespace: str) -> pa.RecordBatch:
    """Return columns as a batch of OBJECT_SCHEMA."""
    (path, checksum, address, content_type), (size, mtime), metadata = columns
    if metadata is None:
        metadata = _no_metadata(len(path))
    address = shown_addresses(address, f"{storage_namespace}/")
    arrays = [
        path,
        pa.array(size),
        checksum,
        pa.array(mtime).cast(OBJECT_SCHEMA.field("mtime").type),
        address,
        metadata,
        content_type,
    ]
    return pa.record_batch(arrays, schema=OBJECT_SCHEMA)


def _no_metadata(count: int) -> pa.MapArray:
    nothing = pa.array([], pa.string())
    offsets = pa.array(np.zeros(count + 1, np.int32))
    return pa.MapArray.from_arrays(offsets, nothing, nothing)


def object_rows(batch: pa.RecordBatch) -> Iterator[ObjectInfo]:
    """Decode a batch of OBJECT_SCHEMA."""
    columns = (column.to_pylist() for column in microsecond_mtimes(batch).columns)
    for path, size, checksum, mtime, address, metadata, kind in zip(*columns, strict=True):
        yield ObjectInfo(
            path=path,
            size=size,
            checksum=checksum,
            mtime=mtime * MICROSECOND,
            address=address,
            metadata=dict(metadata),
            content_type=kind,
        )


def object_record(each: ObjectInfo, storage_namespace: str) -> Record:
    """Return the record of an object. An address inside the namespace becomes relative."""
    own, address = f"{storage_namespace}/", each.address
    if "://" in address and not address.startswith(own):
        address = canonical_address(address)
    inside = address.removeprefix(own)
    relative = "://" not in inside
    if relative:
        check_key(inside)
    entry = Entry(
        address=inside if relative else stored_address(inside),
        size=each.size,
        checksum=each.checksum,
        mtime=each.mtime,
        metadata=each.metadata,
        content_type=each.content_type,
        address_type=AddressType.RELATIVE if relative else AddressType.FULL,
    )
    return entry_record(each.path, entry)


def microsecond_mtimes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch with mtimes as integers, in microseconds since 1970."""
    index = batch.schema.get_field_index("mtime")
    if index < 0:
        return batch
    column = batch.column(index)
    if pa.types.is_timestamp(column.type):
        return with_column(batch, "mtime", unix_microseconds(column))
    raise InvalidRowsError(f"the column mtime is {column.type}; it must contain timestamps")


def unix_microseconds(times: pa.TimestampArray) -> pa.Int64Array:
    """Convert timestamps to unix microseconds. Times that overflow 64 bits stay out of range."""
    unit = times.type.unit
    if unit not in _COARSE_UNITS:
        return times.cast(pa.timestamp("us", tz=times.type.tz), safe=False).cast(pa.int64())
    # A cast from a coarser unit would overflow.
    factor = _COARSE_UNITS[unit]
    least, most = FIRST_MICROSECOND // factor - 1, LAST_MICROSECOND // factor + 1
    values = pc.min_element_wise(times.cast(pa.int64()), pa.scalar(most), skip_nulls=False)
    values = pc.max_element_wise(values, pa.scalar(least), skip_nulls=False)
    return pc.multiply(values, pa.scalar(factor))


_COARSE_UNITS = {"s": SECOND_MICROS, "ms": SECOND_MICROS // 1000}
"""Microseconds per unit."""

FILE_SCHEMA = required_schema(
    name=pa.string(), size=pa.int64(), checksum=pa.string(), mtime=OBJECT_SCHEMA.field("mtime").type
)
"""`name` is the path below the folder of the write. `checksum` is "" if it is not yet computed."""
